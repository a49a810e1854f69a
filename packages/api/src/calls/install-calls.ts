// Installs and what people ask of them.

import { AppName, ChannelName, ComponentName, InstallName } from "@exclave/core";
import { z } from "zod";
import { call } from "../call.ts";
import { InstallView, JobView } from "../resources.ts";
import { get, list, none, nothing, page, post } from "./call-shapes.ts";

const Install = z.object({ install: InstallName });

export const createInstall = post({
  name: "createInstall",
  path: "/v1/installs",
  access: "operator",
  summary: "Creates an install and sets it up",
  params: none,
  body: z.object({
    name: InstallName,
    app: AppName,
    channel: ChannelName.default("stable" as ChannelName),
    sandbox: z.string().default("local"),
    inputs: z.record(z.string(), z.unknown()).default({}),
    /** Where the local sandbox puts the install; the server's default otherwise. */
    directory: z.string().optional(),
  }),
  response: InstallView,
  status: 201,
});

export const listInstalls = get({
  name: "listInstalls",
  path: "/v1/installs",
  access: "viewer",
  summary: "Installs",
  params: none,
  query: page,
  response: list(InstallView),
});

export const getInstall = get({
  name: "getInstall",
  path: "/v1/installs/:install",
  access: "viewer",
  summary: "One install: what is wanted, what is there, what it waits for",
  params: Install,
  query: none,
  response: InstallView,
});

export const deployInstall = post({
  name: "deployInstall",
  path: "/v1/installs/:install/deploy",
  access: "operator",
  summary: "Asks for a release, a retry, or the removal of components no longer wanted",
  params: Install,
  body: z.object({
    release: z.string().optional(),
    channel: ChannelName.optional(),
    inputs: z.record(z.string(), z.unknown()).optional(),
    allowDestroy: z.array(ComponentName).default([]),
    retry: z.boolean().default(true),
  }),
  response: InstallView,
});

export const destroyInstall = post({
  name: "destroyInstall",
  path: "/v1/installs/:install/destroy",
  access: "operator",
  summary: "Takes everything down in reverse order, then the sandbox",
  params: Install,
  body: z.object({ because: z.string().default("asked for") }),
  response: InstallView,
});

export const forgetInstall = call({
  name: "forgetInstall",
  method: "DELETE",
  path: "/v1/installs/:install",
  access: "admin",
  summary: "Drops the server's rows of an install and touches nothing in the customer's account",
  params: Install,
  query: z.object({ force: z.stringbool().default(false) }),
  body: nothing,
  response: z.object({ forgotten: z.string(), note: z.string() }),
  produces: "json",
  consumes: "nothing",
  status: 200,
});

export const runInInstall = post({
  name: "runInInstall",
  path: "/v1/installs/:install/components/:component/jobs",
  access: "operator",
  summary: "Log requests and debug commands, as jobs",
  params: Install.extend({ component: ComponentName }),
  body: z.discriminatedUnion("operation", [
    z.object({
      operation: z.literal("logs"),
      tailLines: z.int().min(0).max(100_000).default(200),
      follow: z.boolean().default(false),
      seconds: z.int().min(1).max(3600).optional(),
    }),
    z.object({
      operation: z.literal("exec"),
      command: z.array(z.string()).min(1),
      timeoutSeconds: z.int().min(1).max(3600).default(60),
    }),
    z.object({ operation: z.literal("status") }),
  ]),
  response: JobView,
  status: 201,
});
