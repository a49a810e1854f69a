// Agents: joining, and who is there.

import { z } from "zod";
import { JoinRequest, JoinResponse } from "../join.ts";
import { AgentView, Time } from "../resources.ts";
import { get, list, none, page, post } from "./call-shapes.ts";

export const joinAgent = post({
  name: "joinAgent",
  path: "/v1/agents/join",
  access: "public",
  summary: "Turns a single-use join secret into an agent",
  params: none,
  body: JoinRequest,
  response: JoinResponse,
  status: 201,
});

export const listAgents = get({
  name: "listAgents",
  path: "/v1/agents",
  access: "viewer",
  summary: "Agents and whether they are connected",
  params: none,
  query: page,
  response: list(AgentView),
});

export const revokeAgent = post({
  name: "revokeAgent",
  path: "/v1/agents/:agent/revoke",
  access: "admin",
  summary: "Takes an agent's key out of use and ends its connection; it has to join anew",
  params: z.object({ agent: z.string() }),
  body: z.object({ because: z.string().min(1).max(500).optional() }),
  response: z.object({ id: z.string(), audience: z.string(), revokedAt: Time }),
  status: 200,
});

export const createJoin = post({
  name: "createJoin",
  path: "/v1/joins",
  access: "admin",
  summary: "Makes a single-use join string for a build or setup agent",
  params: none,
  body: z.object({ kind: z.enum(["build", "setup"]) }),
  response: z.object({ joinString: z.string(), expiresAt: Time }),
  status: 201,
});
