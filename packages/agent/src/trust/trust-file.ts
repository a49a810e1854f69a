// The trust document this agent goes by, as a file of its own: the newest it was given, durable before
// it counts. It is not in the journal, so that a lost journal does not take an agent back to older keys.

import { readFile } from "node:fs/promises";
import {
  Envelope,
  Failure,
  Instant,
  keysOfRole,
  parseTrust,
  readEnvelope,
  TRUST_BYTES_MAX,
  TRUST_PAYLOAD_TYPE,
  type TrustDocument,
  type TrustedKey,
  type TrustRole,
} from "@exclave/core";
import { writeDurablySync } from "@exclave/machine";
import { z } from "zod";

export interface TrustFile {
  current(): TrustDocument;
  /** Durable when it returns; from then on the current one. */
  keep(envelope: Envelope, document: TrustDocument): void;
  /** The keys a role has now, and how many of them must sign. */
  role(role: TrustRole): { readonly keys: readonly TrustedKey[]; readonly threshold: number };
}

const Kept = z.object({ version: z.literal(1), envelope: Envelope });

/** The file at that path; undefined when there is none. */
export async function readTrustFile(
  path: string,
  now: () => number,
): Promise<TrustFile | undefined> {
  const text = await readFile(path, "utf8").catch((reason: NodeJS.ErrnoException) => {
    if (reason.code === "ENOENT") return undefined;
    throw reason;
  });
  return text === undefined ? undefined : trustFile(path, readKept(path, text), now);
}

/** A new file, for an agent that just joined. */
export function createTrustFile(
  path: string,
  { envelope, document }: { readonly envelope: Envelope; readonly document: TrustDocument },
  now: () => number,
): TrustFile {
  writeKept(path, envelope);
  return trustFile(path, document, now);
}

function trustFile(path: string, first: TrustDocument, now: () => number): TrustFile {
  let document = first;
  return {
    current: () => document,
    keep(envelope, next) {
      writeKept(path, envelope);
      document = next;
    },
    role: (role) => keysOfRole(document, role, Instant.parse(now())),
  };
}

/** What lies here was verified before it was written. */
function readKept(path: string, text: string): TrustDocument {
  try {
    const { envelope } = Kept.parse(JSON.parse(text));
    const limits = { payloadType: TRUST_PAYLOAD_TYPE, bytesMax: TRUST_BYTES_MAX };
    const read = readEnvelope(envelope, limits);
    if ("code" in read) throw new Error(read.because);
    const document = parseTrust(read.payload);
    if ("because" in document) throw new Error(document.because);
    return document;
  } catch (cause) {
    throw new Failure("invalid", `${path} does not hold a trust document`, { cause });
  }
}

/** Without waiting: it is written within one step of the agent, before what follows from it. */
function writeKept(path: string, envelope: Envelope): void {
  writeDurablySync(path, `${JSON.stringify({ version: 1, envelope })}\n`);
}
