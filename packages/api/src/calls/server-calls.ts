// What a server says of itself, and what is live.

import { z } from "zod";
import { call } from "../call.ts";
import { LiveEvent, Time } from "../resources.ts";
import { get, none, nothing } from "./call-shapes.ts";

export const getInfo = get({
  name: "getInfo",
  path: "/v1/info",
  access: "public",
  summary: "Which server this is",
  params: none,
  query: none,
  response: z.object({
    name: z.literal("exclave"),
    version: z.string(),
    protocol: z.string(),
    startedAt: Time,
  }),
});

export const getReleaseKey = call({
  name: "getReleaseKey",
  method: "GET",
  path: "/v1/keys/release",
  access: "public",
  summary: "The public key that releases are signed with, as PEM: for `cosign verify --key`",
  params: none,
  query: none,
  body: nothing,
  response: z.string(),
  produces: "bytes",
  consumes: "nothing",
  status: 200,
});

export const getMetrics = call({
  name: "getMetrics",
  method: "GET",
  path: "/metrics",
  access: "viewer",
  summary: "Counts and times of this server, as Prometheus reads them",
  params: none,
  query: none,
  body: nothing,
  response: z.string(),
  produces: "bytes",
  consumes: "nothing",
  status: 200,
});

export const watchEvents = call({
  name: "watchEvents",
  method: "GET",
  path: "/v1/events",
  access: "viewer",
  summary: "What is live, as server-sent events",
  params: none,
  query: z.object({ install: z.string().optional(), after: z.coerce.number().int().optional() }),
  body: nothing,
  response: LiveEvent,
  produces: "events",
  consumes: "nothing",
  status: 200,
});
