// Signs an artifact and checks signatures, in sigstore's bundle format: an in-toto statement about the
// artifact's digest in a DSSE envelope, attached as a referrer. `cosign verify --key` reads it.

import {
  createHash,
  createPublicKey,
  type KeyObject,
  sign as signBytes,
  verify as verifyBytes,
} from "node:crypto";
import { canonicalBytes, type Digest, Failure, preAuthEncoding } from "@exclave/core";
import { z } from "zod";
import { type ContentStore, readBlobBytes, writeBlobBytes } from "../content-store.ts";
import { MEDIA_TYPES, parseManifest } from "../descriptor.ts";
import { parseDigest, splitDigest } from "../digest.ts";
import { SIGNATURE_TYPE } from "./media-types.ts";
import { writeDocument } from "./write-document.ts";

const STATEMENT_TYPE = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE = "https://sigstore.dev/cosign/sign/v1";
const PAYLOAD_TYPE = "application/vnd.in-toto+json";
/** Nobody signs one artifact this often; a registry full of rubbish must end too. */
const SIGNATURES_MAX = 64;
const BUNDLE_BYTES_MAX = 1024 * 1024;

/** Whoever holds the private key: this process, or a key service. */
export interface Signer {
  readonly publicKey: KeyObject;
  /** ECDSA over SHA-256 in DER for a P-256 key, plain Ed25519 for that. */
  sign(bytes: Uint8Array): Promise<Uint8Array>;
}

export function createSigner(privateKey: KeyObject): Signer {
  const publicKey = createPublicKey(privateKey);
  const algorithm = algorithmOf(publicKey);
  return { publicKey, sign: async (bytes) => signBytes(algorithm, bytes, privateKey) };
}

export interface SignArtifact {
  readonly store: ContentStore;
  readonly repository: string;
  readonly digest: Digest;
  readonly signer: Signer;
  readonly signal?: AbortSignal | undefined;
}

/** Attaches a signature and returns its digest; one by the same key that is already there stays alone. */
export async function signArtifact(options: SignArtifact): Promise<Digest> {
  const { store, repository, digest, signer, signal } = options;
  const publicKeys = [signer.publicKey];
  const before = await verifyArtifactSignature({ store, repository, digest, publicKeys, signal });
  if (before.kind === "signed") return before.signature;

  const subject = await store.headManifest(repository, digest, { signal });
  if (!subject) throw new Failure("not_found", `there is no ${digest} in ${repository} to sign`);
  const payload = canonicalBytes(statementFor(digest));
  const sig = await signer.sign(preAuthEncoding(PAYLOAD_TYPE, payload));
  const bundle = canonicalBytes({
    mediaType: SIGNATURE_TYPE,
    verificationMaterial: { publicKey: { hint: keyHint(signer.publicKey) } },
    dsseEnvelope: {
      payload: Buffer.from(payload).toString("base64"),
      payloadType: PAYLOAD_TYPE,
      signatures: [{ sig: Buffer.from(sig).toString("base64") }],
    },
  });
  const layer = await writeBlobBytes(store, repository, SIGNATURE_TYPE, bundle);
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const { mediaType, size } = subject;
  const written = await writeDocument(
    { store, repository, signal },
    {
      schemaVersion: 2,
      mediaType: MEDIA_TYPES.manifest,
      artifactType: SIGNATURE_TYPE,
      config,
      layers: [layer],
      subject: { mediaType, digest, size },
      annotations: {
        "dev.sigstore.bundle.content": "dsse-envelope",
        "dev.sigstore.bundle.predicateType": PREDICATE_TYPE,
      },
    },
  );
  return written.digest;
}

export interface VerifyArtifactSignature {
  readonly store: ContentStore;
  readonly repository: string;
  readonly digest: Digest;
  /** Any of these will do. */
  readonly publicKeys: readonly KeyObject[];
  readonly signal?: AbortSignal | undefined;
}

export type SignatureVerdict =
  | { readonly kind: "signed"; readonly signature: Digest; readonly publicKey: KeyObject }
  | { readonly kind: "unsigned"; readonly because: string };

/** Whether one of the keys signed exactly this digest. Failing to reach the store is not a verdict. */
export async function verifyArtifactSignature(
  options: VerifyArtifactSignature,
): Promise<SignatureVerdict> {
  const { store, repository, digest, publicKeys, signal } = options;
  const attached = await store.referrers(repository, digest, {
    signal,
    artifactType: SIGNATURE_TYPE,
  });
  const reasons: string[] = [];
  for (const { digest: signature } of attached.slice(0, SIGNATURES_MAX)) {
    const verdict = await judge(options, signature, publicKeys);
    if (verdict.kind === "signed") return verdict;
    reasons.push(verdict.because);
  }
  const because = reasons[0] ?? `nobody has signed ${digest}`;
  return { kind: "unsigned", because };
}

const RUBBISH: ReadonlySet<string> = new Set(["invalid", "not_found", "too_large"]);

const Bundle = z.looseObject({
  dsseEnvelope: z.object({
    payload: z.base64(),
    payloadType: z.literal(PAYLOAD_TYPE),
    signatures: z.array(z.object({ sig: z.base64() })).min(1),
  }),
});

const Statement = z.looseObject({
  _type: z.literal(STATEMENT_TYPE),
  predicateType: z.literal(PREDICATE_TYPE),
  subject: z.array(z.looseObject({ digest: z.record(z.string(), z.string()) })).min(1),
});

async function judge(
  { store, repository, digest }: VerifyArtifactSignature,
  signature: Digest,
  publicKeys: readonly KeyObject[],
): Promise<SignatureVerdict> {
  const because = (what: string) =>
    ({ kind: "unsigned", because: `${signature} ${what}` }) as const;
  const bundle = Bundle.safeParse(await readBundle(store, repository, signature));
  if (!bundle.success) return because("is not a signature");
  const { payload: encoded, payloadType, signatures } = bundle.data.dsseEnvelope;
  const payload = Buffer.from(encoded, "base64");
  const signed = preAuthEncoding(payloadType, payload);
  const publicKey = publicKeys.find((key) =>
    signatures.some(({ sig }) => isSignedBy(key, signed, Buffer.from(sig, "base64"))),
  );
  if (!publicKey) return because("was made with a key that is not trusted here");
  // Only now: what a stranger wrote is not worth reading.
  const statement = Statement.safeParse(parseJson(payload));
  if (!statement.success) return because("says nothing about an artifact");
  const { algorithm, hex } = splitDigest(digest);
  if (!statement.data.subject.some((subject) => subject.digest[algorithm] === hex)) {
    return because("is about another artifact");
  }
  return { kind: "signed", signature, publicKey };
}

async function readBundle(
  store: ContentStore,
  repository: string,
  signature: Digest,
): Promise<unknown> {
  try {
    const { bytes, mediaType } = await store.readManifest(repository, signature);
    const parsed = parseManifest(bytes, mediaType);
    const layer = parsed.kind === "manifest" ? parsed.manifest.layers[0] : undefined;
    if (!layer || layer.size > BUNDLE_BYTES_MAX) return undefined;
    return parseJson(await readBlobBytes(store, repository, layer));
  } catch (reason) {
    // Anybody may attach rubbish; it must not hide the good signature beside it.
    if (reason instanceof Failure && RUBBISH.has(reason.code)) return undefined;
    throw reason;
  }
}

function statementFor(digest: Digest): object {
  const { algorithm, hex } = splitDigest(parseDigest(digest));
  return {
    _type: STATEMENT_TYPE,
    subject: [{ digest: { [algorithm]: hex } }],
    predicateType: PREDICATE_TYPE,
    predicate: {},
  };
}

function isSignedBy(key: KeyObject, bytes: Uint8Array, signature: Uint8Array): boolean {
  try {
    return verifyBytes(algorithmOf(key), bytes, key, signature);
  } catch {
    return false;
  }
}

function algorithmOf(key: KeyObject): "sha256" | null {
  const { namedCurve } = key.asymmetricKeyDetails ?? {};
  if (key.asymmetricKeyType === "ec" && namedCurve === "prime256v1") return "sha256";
  if (key.asymmetricKeyType === "ed25519") return null;
  throw new Failure("invalid", "artifacts are signed with P-256 or Ed25519 keys");
}

/** How sigstore tells keys apart; a help for people, no proof of anything. */
export function keyHint(key: KeyObject): string {
  const der = key.export({ type: "spki", format: "der" });
  return createHash("sha256").update(der).digest("base64");
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch {
    return undefined;
  }
}
