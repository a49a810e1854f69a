// Installs and what people ask of them.

import {
  AppName,
  ChannelName,
  ComponentName,
  INPUTS_BYTES_MAX,
  InstallName,
  MANIFEST_BYTES_MAX,
} from "@exclave/core";
import { z } from "zod";
import { call } from "../call.ts";
import { InstallView, JobView } from "../resources.ts";
import { get, list, none, nothing, page, post } from "./call-shapes.ts";

/** By name or by id: an id has the form of a name too. */
const Install = z.object({ install: InstallName });

/** More than may be in there, so that what is too large is named by the part it is. */
const INPUTS_BODY_BYTES_MAX = 4 * INPUTS_BYTES_MAX;
const ARGUMENTS_BODY_BYTES_MAX = 2 * MANIFEST_BYTES_MAX;

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
    /** What the sandbox is told, in its own words: for `local`, where the install's `directory` is. */
    sandboxConfig: z.record(z.string(), z.unknown()).default({}),
  }),
  bodyBytesMax: INPUTS_BODY_BYTES_MAX,
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
  summary:
    "Asks for a release, a retry, a new apply of components, or the removal of those no longer wanted",
  params: Install,
  body: z.object({
    release: z.string().optional(),
    channel: ChannelName.optional(),
    inputs: z.record(z.string(), z.unknown()).optional(),
    allowDestroy: z.array(ComponentName).default([]),
    /** Deployed components to apply again as they are. */
    components: z.array(ComponentName).max(256).default([]),
    retry: z.boolean().default(true),
  }),
  bodyBytesMax: INPUTS_BODY_BYTES_MAX,
  response: InstallView,
});

export const setupInstall = post({
  name: "setupInstall",
  path: "/v1/installs/:install/setup",
  access: "operator",
  summary:
    "Runs the setup of the install's sandbox again; what is there stays, and the agent joins anew",
  params: Install,
  body: z.object({ because: z.string().max(1_000).default("asked for") }),
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
  response: z.object({ forgotten: z.string(), id: z.string(), note: z.string() }),
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
  bodyBytesMax: ARGUMENTS_BODY_BYTES_MAX,
  response: JobView,
  status: 201,
});
