// An agent that joined before there were trust documents pinned two keys. It goes by the server's first
// trust document if that names exactly those two, and no other; from there on it follows.

import {
  digestOfBytes,
  Envelope,
  Failure,
  firstTrust,
  fromBase64,
  Instant,
  type TrustDocument,
} from "@exclave/core";
import { createServerFetch, verifySignature } from "@exclave/machine";
import type { PinnedKeys } from "../identity/identity.ts";

export interface AdoptTrust {
  readonly serverUrl: string;
  readonly pinned: PinnedKeys;
  readonly now: number;
  /** Reads a document of the server's; what it says is not trusted. */
  readonly read: (url: string) => Promise<unknown>;
}

export async function adoptTrust({
  serverUrl,
  pinned,
  now,
  read,
}: AdoptTrust): Promise<{ envelope: Envelope; document: TrustDocument }> {
  const envelope = Envelope.parse(await read(new URL("/v1/trust/1", serverUrl).href));
  const digest = digestOfBytes(fromBase64(envelope.payload) ?? new Uint8Array());
  const judged = firstTrust({
    envelope,
    digest,
    now: Instant.parse(now),
    verify: verifySignature,
  });
  if (judged.kind === "refused") {
    throw new Failure("signature", `the server's trust document is not taken: ${judged.because}`);
  }
  const { document } = judged;
  for (const role of ["director", "release"] as const) {
    if (document.roles[role].keyids.join() === pinned[role].keyid) continue;
    throw new Failure("signature", `the server's ${role} key is not the one this agent pinned`);
  }
  return { envelope, document };
}

export function readFromServer(ca: string | undefined): AdoptTrust["read"] {
  return async (url) => {
    try {
      const response = await createServerFetch({ ca })(url, {
        signal: AbortSignal.timeout(30_000),
      });
      if (!response.ok) throw new Error(`it answered ${response.status}`);
      return await response.json();
    } catch (cause) {
      throw new Failure("unavailable", `cannot read ${url}`, { cause });
    }
  };
}
