// The server's own certificate authority: which it is, and how it is replaced.

import { z } from "zod";
import { Time } from "../resources.ts";
import { get, none, post } from "./call-shapes.ts";

export const AuthorityCertificate = z.object({
  fingerprint: z.string(),
  /** In PEM. */
  certificate: z.string(),
  expiresAt: Time,
});

export const AuthorityView = z.object({
  current: AuthorityCertificate,
  /** The one it replaces, while agents and people learn of the current one. */
  old: AuthorityCertificate.nullable(),
  /** Whether agents and people hold the server against it; not with a certificate that was brought. */
  isPinned: z.boolean(),
  /** Agents that do not know the current one yet, and the first of them. */
  behind: z.object({ agents: z.int(), first: z.array(z.string()) }),
});
export type AuthorityView = z.infer<typeof AuthorityView>;

export const getAuthority = get({
  name: "getAuthority",
  path: "/v1/authority",
  access: "viewer",
  summary:
    "The server's certificate authority, the one it replaces, and which agents do not know it yet",
  params: none,
  query: none,
  response: AuthorityView,
});

export const rotateAuthority = post({
  name: "rotateAuthority",
  path: "/v1/authority/rotate",
  access: "admin",
  summary: "Makes a new certificate authority, which the old one vouches for until it is retired",
  params: none,
  body: none,
  response: AuthorityView,
});

export const retireAuthority = post({
  name: "retireAuthority",
  path: "/v1/authority/retire",
  access: "admin",
  summary: "Ends the old certificate authority; refused while agents know no other, unless forced",
  params: none,
  body: z.object({ force: z.boolean().default(false) }),
  response: AuthorityView,
});
