// API tokens.

import { z } from "zod";
import { call } from "../call.ts";
import { Role, TokenView } from "../resources.ts";
import { get, list, none, nothing, page, post } from "./call-shapes.ts";

export const listTokens = get({
  name: "listTokens",
  path: "/v1/tokens",
  access: "admin",
  summary: "API tokens, never their values",
  params: none,
  query: page,
  response: list(TokenView),
});

export const createToken = post({
  name: "createToken",
  path: "/v1/tokens",
  access: "admin",
  summary: "Makes a token; its value is shown this once",
  params: none,
  body: z.object({
    name: z.string().min(1).max(80),
    role: Role,
    expiresInSeconds: z.int().positive().optional(),
  }),
  response: TokenView.extend({ token: z.string() }),
  status: 201,
});

export const revokeToken = call({
  name: "revokeToken",
  method: "DELETE",
  path: "/v1/tokens/:token",
  access: "admin",
  summary: "Revokes a token",
  params: z.object({ token: z.string() }),
  query: none,
  body: nothing,
  response: TokenView,
  produces: "json",
  consumes: "nothing",
  status: 200,
});
