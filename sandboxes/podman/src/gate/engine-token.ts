// Who a job is to the gate: a token that the install's agent signed for it, which names its component.

import { createPublicKey, verify } from "node:crypto";
import { z } from "@exclave/plugin-sdk";

const Claims = z.object({
  iss: z.string(),
  aud: z.string(),
  sub: z.string().min(1),
  exp: z.number(),
  nbf: z.number(),
});

export interface EngineTokenTrust {
  /** In PEM. */
  readonly publicKey: string;
  readonly issuer: string;
  readonly service: string;
  readonly now: number;
}

/** The component that the token is for; undefined for a token that is none of ours, or not of this moment. */
export function componentOf(
  authorization: string | undefined,
  { publicKey, issuer, service, now }: EngineTokenTrust,
): string | undefined {
  const [, head, body, signature] =
    /^Bearer ([\w-]{1,1024})\.([\w-]{1,8192})\.([\w-]{1,1024})$/.exec(authorization ?? "") ?? [];
  if (head === undefined || body === undefined || signature === undefined) return undefined;
  const bytes = Buffer.from(`${head}.${body}`);
  const isSigned = verify(
    null,
    bytes,
    createPublicKey(publicKey),
    Buffer.from(signature, "base64url"),
  );
  if (!isSigned) return undefined;
  const claims = Claims.safeParse(readJson(Buffer.from(body, "base64url").toString())).data;
  if (claims?.iss !== issuer || claims.aud !== service) return undefined;
  const seconds = now / 1_000;
  return seconds >= claims.nbf && seconds < claims.exp ? claims.sub : undefined;
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
