// Reads a release statement that came from anywhere: it counts if enough keys of the release role
// signed exactly these bytes, and if they speak of the release that was asked for. Nothing is read
// out of the payload before the signatures hold.

import { z } from "zod";
import { fromBase64 } from "../encoding/base64.ts";
import { strictText } from "../encoding/utf8.ts";
import type { Digest } from "../ids.ts";
import { preAuthEncoding } from "../manifest/manifest.ts";
import type { OpenEnvelope, TrustedKey, VerifySignature } from "../trust/envelope.ts";
import {
  digestSet,
  IN_TOTO_PAYLOAD_TYPE,
  IN_TOTO_STATEMENT_TYPE,
  RELEASE_PREDICATE_TYPE,
  ReleaseStatement,
} from "./release-statement.ts";

/** Whose signatures count, and how many of them it takes. */
export type TrustedRole = Pick<OpenEnvelope, "keys" | "threshold">;

/** DSSE as sigstore's bundles hold it: the key's id is a help and no proof, and may be absent. */
export const StatementEnvelope = z.object({
  payloadType: z.literal(IN_TOTO_PAYLOAD_TYPE),
  payload: z.base64(),
  signatures: z
    .array(z.object({ sig: z.base64(), keyid: z.string().max(128).optional() }))
    .min(1)
    .max(16),
});
export type StatementEnvelope = z.infer<typeof StatementEnvelope>;

export interface OpenStatement {
  /** As it was found. */
  readonly envelope: unknown;
  /** The index it has to be about. */
  readonly index: Digest;
  readonly role: TrustedRole;
  readonly verify: VerifySignature;
}

export type OpenedStatement =
  | {
      readonly kind: "ok";
      readonly statement: ReleaseStatement;
      /** Only the signatures that count: nothing else of the envelope was vouched for. */
      readonly envelope: StatementEnvelope;
      /** In the order of those signatures. */
      readonly signedBy: readonly TrustedKey[];
    }
  | { readonly kind: "refused"; readonly because: string };

export const STATEMENT_BYTES_MAX = 512 * 1024;

export function openStatement(options: OpenStatement): OpenedStatement {
  const { index } = options;
  const parsed = StatementEnvelope.safeParse(options.envelope).data;
  if (!parsed) return refused("it is not a signed statement");
  if (parsed.payload.length > Math.ceil(STATEMENT_BYTES_MAX / 3) * 4) {
    return refused(`it is over the limit of ${STATEMENT_BYTES_MAX} bytes`);
  }
  const payload = fromBase64(parsed.payload);
  if (!payload) return refused("its payload is not base64");

  const trusted = trustedSignatures(parsed, payload, options);
  if (!trusted) return refused("it was not signed by enough keys that are trusted here");

  const inToto = InToto.safeParse(parseJson(payload)).data;
  if (!inToto) return refused("it is signed, but it is no release statement");
  const { subject, predicate } = inToto;
  const [only, ...others] = subject;
  if (!only || others.length > 0 || !isSubject(only.digest, index)) {
    return refused(`it is about another release than ${index}`);
  }
  if (predicate.index.digest !== index) return refused("it contradicts itself about its index");
  const { signatures, signedBy } = trusted;
  return { kind: "ok", statement: predicate, envelope: { ...parsed, signatures }, signedBy };
}

const InToto = z.object({
  _type: z.literal(IN_TOTO_STATEMENT_TYPE),
  predicateType: z.literal(RELEASE_PREDICATE_TYPE),
  subject: z.array(z.object({ digest: z.record(z.string(), z.string()) })),
  predicate: ReleaseStatement,
});

type Signatures = StatementEnvelope["signatures"];

/** One signature per distinct key; undefined where the threshold is not met. */
function trustedSignatures(
  envelope: StatementEnvelope,
  payload: Uint8Array,
  { role: { keys, threshold }, verify }: OpenStatement,
): { signatures: Signatures; signedBy: TrustedKey[] } | undefined {
  const signed = preAuthEncoding(envelope.payloadType, payload);
  const counted = new Map<string, { key: TrustedKey; signature: Signatures[number] }>();
  for (const signature of envelope.signatures) {
    const bytes = fromBase64(signature.sig);
    const key =
      bytes &&
      keys.find(({ spki, scheme }) => !counted.has(spki) && verify(spki, signed, bytes, scheme));
    if (!key) continue;
    const { sig, keyid } = signature;
    const kept = keyid === key.keyid ? { sig, keyid } : { sig };
    counted.set(key.spki, { key, signature: kept });
  }
  if (threshold < 1 || counted.size < threshold) return undefined;
  const found = [...counted.values()];
  return {
    signatures: found.map(({ signature: kept }) => kept),
    signedBy: found.map(({ key }) => key),
  };
}

function isSubject(found: Readonly<Record<string, string>>, index: Digest): boolean {
  const wanted = Object.entries(digestSet(index));
  return (
    Object.keys(found).length === wanted.length &&
    wanted.every(([algorithm, hex]) => found[algorithm] === hex)
  );
}

function parseJson(payload: Uint8Array): unknown {
  try {
    return JSON.parse(strictText(payload));
  } catch {
    return undefined;
  }
}

function refused(because: string): OpenedStatement {
  return { kind: "refused", because };
}
