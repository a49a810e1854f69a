// The authorities this agent holds its server against: the one it pinned when it joined, or those that a server it
// trusted named since. Durable before the next connection is held against them.

import { X509Certificate } from "node:crypto";
import { Failure } from "@exclave/core";
import { caFingerprint, readIfThere, writeDurablySync } from "@exclave/machine";
import { z } from "zod";

export interface ServerAuthorities {
  /** In PEM; undefined where the machine's roots count. */
  current(): string | undefined;
  fingerprints(): string[];
  /** In place of those it knew. Throws for what is not a list of authorities. */
  keep(certificates: readonly string[]): void;
}

const Kept = z.object({
  /** Of the one it pinned: a later join begins anew. */
  pinned: z.string(),
  certificates: z.array(z.string()).min(1),
});

export async function openServerAuthorities(
  path: string,
  pinned: string | undefined,
): Promise<ServerAuthorities> {
  let current = pinned === undefined ? [] : (keptFor(pinned, await readIfThere(path)) ?? [pinned]);
  return {
    current: () => (current.length === 0 ? undefined : current.join("\n")),
    fingerprints: () => current.map((one) => caFingerprint(new X509Certificate(one))),
    keep(certificates) {
      if (pinned === undefined) throw new Failure("invalid", "this agent pinned no authority");
      if (!certificates.every(isAuthority)) {
        throw new Failure("invalid", "the server named an authority that is none");
      }
      writeDurablySync(path, `${JSON.stringify({ pinned, certificates })}\n`);
      current = [...certificates];
    },
  };
}

function keptFor(pinned: string, text: string | undefined): string[] | undefined {
  if (text === undefined) return undefined;
  try {
    const kept = Kept.safeParse(JSON.parse(text)).data;
    return kept?.pinned === pinned && kept.certificates.every(isAuthority)
      ? kept.certificates
      : undefined;
  } catch {
    return undefined;
  }
}

function isAuthority(pem: string): boolean {
  try {
    return new X509Certificate(pem).ca;
  } catch {
    return false;
  }
}
