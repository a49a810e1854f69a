// How an agent becomes one: a join string is handed over once, out of band. It names the server, a
// single-use secret, and the digest of the server's trust document, so that the joiner knows whom it
// trusts before it says anything. After joining, the agent proves itself by its own key.

import { AgentId, AppId, Audience, Digest, Envelope, InstallName } from "@exclave/core";
import { z } from "zod";
import { CERTIFICATE_CHARS_MAX } from "./link/link-limits.ts";

export const AgentKind = z.enum(["build", "setup", "install"]);
export type AgentKind = z.infer<typeof AgentKind>;

/** sha256 of a certificate authority's public key. */
export const CaFingerprint = z.string().regex(/^sha256:[0-9a-f]{64}$/);

export const JoinString = z.object({
  url: z.url(),
  /** Of the authority that has to vouch for the server, before it is told anything. */
  caFingerprint: CaFingerprint.optional(),
  kind: AgentKind,
  audience: Audience,
  /** The install's name, for people to read, and the app it is a copy of. */
  install: InstallName.optional(),
  app: AppId.optional(),
  secret: z.string().min(22),
  /** Of the trust document's bytes: whom the agent will trust. */
  trustDigest: Digest,
});
export type JoinString = z.infer<typeof JoinString>;

export const JoinRequest = z.object({
  secret: z.string(),
  /** The agent's Ed25519 identity, base64 SPKI DER. */
  identityKey: z.base64(),
  /** Its X25519 sealing key, base64 SPKI DER. */
  sealingKey: z.base64(),
  /** Which trust document the join string names. */
  trustDigest: Digest,
  /** Ed25519 signature over the secret: the joiner holds the key it presents. */
  proof: z.base64(),
});
export type JoinRequest = z.infer<typeof JoinRequest>;

export const JoinResponse = z.object({
  agent: AgentId,
  kind: AgentKind,
  audience: Audience,
  install: InstallName.optional(),
  app: AppId.optional(),
  keyGeneration: z.int().positive(),
  /** The trust document with the digest that was asked for. */
  trust: Envelope,
  /** For the link, in PEM, where the server speaks TLS itself: of the key that was presented. */
  certificate: z.string().max(CERTIFICATE_CHARS_MAX).optional(),
});
export type JoinResponse = z.infer<typeof JoinResponse>;

const PREFIX = "exclave-join-v1.";

export function encodeJoinString(join: JoinString): string {
  return (
    PREFIX +
    btoa(JSON.stringify(join)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")
  );
}

export function decodeJoinString(text: string): JoinString | undefined {
  if (!text.startsWith(PREFIX)) return undefined;
  try {
    const base64 = text.slice(PREFIX.length).trim().replaceAll("-", "+").replaceAll("_", "/");
    return JoinString.safeParse(JSON.parse(atob(base64))).data;
  } catch {
    return undefined;
  }
}
