// Every version of the trust document, in the database and as files beside it. The files are there
// for the day the database is restored from an older backup: agents do not go back to an older version.

import { mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import {
  type Digest,
  digestOfBytes,
  Envelope,
  Failure,
  firstTrust,
  type Instant,
  nextTrust,
  readEnvelope,
  TRUST_BYTES_MAX,
  TRUST_PAYLOAD_TYPE,
  type TrustDocument,
} from "@exclave/core";
import { verifySignature, writeDurably } from "@exclave/machine";
import type { TrustRow } from "../store/rows.ts";
import type { Store } from "../store/store.ts";

export interface TrustVersion {
  readonly document: TrustDocument;
  readonly digest: Digest;
  readonly envelope: Envelope;
}

/** The chain as it is kept, oldest first, checked link by link. */
export async function readVersions(
  store: Store,
  directory: string,
  now: Instant,
): Promise<TrustVersion[]> {
  const envelopes = new Map<number, Envelope>(await readFiles(directory));
  for (const { version, envelope } of await store.read.trust.all()) {
    envelopes.set(version, envelope);
  }
  const versions: TrustVersion[] = [];
  for (let number = 1; envelopes.has(number); number++) {
    const envelope = envelopes.get(number);
    if (!envelope) break;
    const judged = judge(versions.at(-1)?.document, envelope, now);
    if (judged.kind === "refused") {
      const message = `version ${number} of the trust document cannot be used: ${judged.because}`;
      throw new Failure("invalid", message);
    }
    const { document, digest } = judged;
    versions.push({ document, digest, envelope });
  }
  return versions;
}

/** Durable in its file; the row is written by the caller, with the line on record. */
export async function writeVersion(
  directory: string,
  { document, envelope }: TrustVersion,
): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const file = join(directory, `${document.version}.json`);
  await writeDurably(file, `${JSON.stringify(envelope)}\n`);
}

export function rowOf(
  { document, digest, envelope }: TrustVersion,
  at: Instant,
  by: string,
): TrustRow {
  return { version: document.version, digest, envelope, at, by, areReleasesChecked: false };
}

function judge(current: TrustDocument | undefined, envelope: Envelope, now: Instant) {
  const verify = verifySignature;
  if (current) return nextTrust({ current, envelope, now, verify });
  const limits = { payloadType: TRUST_PAYLOAD_TYPE, bytesMax: TRUST_BYTES_MAX };
  const read = readEnvelope(envelope, limits);
  if ("code" in read) return read;
  // The first one is its own beginning.
  return firstTrust({ envelope, digest: digestOfBytes(read.payload), now, verify });
}

async function readFiles(directory: string): Promise<[number, Envelope][]> {
  const names = await readdir(directory).catch((reason: NodeJS.ErrnoException) => {
    if (reason.code === "ENOENT") return [];
    throw reason;
  });
  const found: [number, Envelope][] = [];
  for (const name of names) {
    const number = /^([1-9][0-9]*)\.json$/.exec(name)?.[1];
    if (number === undefined) continue;
    const text = await readFile(join(directory, name), "utf8");
    found.push([Number(number), Envelope.parse(JSON.parse(text))]);
  }
  return found;
}
