// Whose word counts: the trust document, its versions, and the replacing of keys.

import { Envelope, KEY_SCHEMES, TrustRole } from "@exclave/core";
import { z } from "zod";
import { Time } from "../resources.ts";
import { get, none, post } from "./call-shapes.ts";

export const KeyView = z.object({
  keyid: z.string(),
  scheme: z.enum(KEY_SCHEMES),
  /** When it stops counting; null for one that lasts. */
  until: Time.nullable(),
  /** Whether this server's signer holds the private half. */
  held: z.boolean(),
});
export type KeyView = z.infer<typeof KeyView>;

export const KeysView = z.object({
  version: z.int().positive(),
  digest: z.string(),
  expiresAt: Time,
  origins: z.array(z.string()),
  roles: z.array(z.object({ role: TrustRole, threshold: z.int(), keys: z.array(KeyView) })),
  /** How many agents go by which version. */
  agents: z.array(z.object({ version: z.int(), agents: z.int() })),
  /** Those that are behind, at most 100 of them. */
  behind: z.array(
    z.object({
      agent: z.string(),
      audience: z.string(),
      install: z.string().nullable(),
      version: z.int(),
      isOnline: z.boolean(),
    }),
  ),
});
export type KeysView = z.infer<typeof KeysView>;

/** Done, or waiting for signatures of root keys that are not here. */
export const TrustChange = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("published"), version: z.int().positive() }),
  z.object({
    kind: z.literal("to_sign"),
    version: z.int().positive(),
    /** With the signatures of the root keys that are here, if any. */
    payloadType: z.string(),
    payload: z.base64(),
    signatures: z.array(z.object({ keyid: z.string(), sig: z.base64() })),
  }),
]);
export type TrustChange = z.infer<typeof TrustChange>;

export const getTrust = get({
  name: "getTrust",
  path: "/v1/trust/:version",
  access: "public",
  summary: "A version of the trust document, as root signed it; `current` is the newest",
  params: z.object({
    version: z.union([z.literal("current"), z.coerce.number().int().positive()]),
  }),
  query: none,
  response: Envelope,
});

export const getKeys = get({
  name: "getKeys",
  path: "/v1/keys",
  access: "viewer",
  summary: "Roles, their keys and thresholds, and which agents go by which version",
  params: none,
  query: none,
  response: KeysView,
});

export const rotateKey = post({
  name: "rotateKey",
  path: "/v1/keys/:role/rotate",
  access: "admin",
  summary:
    "Replaces a role's key: publishes the next trust document, or gives it to be signed by root",
  params: z.object({ role: TrustRole }),
  body: z.object({
    /** The replaced key is out at once. */
    revoke: z.boolean().default(false),
    graceMs: z.int().nonnegative().optional(),
    /** For root: the public half of a key that was made elsewhere. */
    newRoot: z.base64().max(1024).optional(),
  }),
  response: TrustChange,
});

export const renewTrust = post({
  name: "renewTrust",
  path: "/v1/keys/renew",
  access: "admin",
  summary: "The same trust document with a later end and the server's current origin",
  params: none,
  body: z.object({}),
  response: TrustChange,
});

export const publishTrust = post({
  name: "publishTrust",
  path: "/v1/keys/trust",
  access: "admin",
  summary: "Publishes a next trust document that root signed elsewhere",
  params: none,
  body: Envelope,
  response: TrustChange,
});

export const exportRootKey = post({
  name: "exportRootKey",
  path: "/v1/root-key/export",
  access: "admin",
  summary: "The private root key, to be kept offline, and what to sign once it is safe",
  params: none,
  body: z.object({}),
  response: z.object({ keyid: z.string(), pem: z.string(), challenge: z.base64() }),
});

export const forgetRootKey = post({
  name: "forgetRootKey",
  path: "/v1/root-key/forget",
  access: "admin",
  summary: "Forgets the root key, shown that whoever asks has it",
  params: none,
  body: z.object({ keyid: z.string(), signature: z.base64().max(1024) }),
  response: z.object({ keyid: z.string() }),
});

export const ROOT_EXPORT_PAYLOAD_TYPE = "application/vnd.exclave.root-export.v1+json";
