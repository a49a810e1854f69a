// A release's statement as registries keep it: an in-toto statement about the index in a DSSE
// envelope, in sigstore's bundle format, attached to the index as a referrer. `cosign
// verify-attestation --key` reads it. One statement has one spelling: whoever finds one writes it
// anew from what was signed, and takes it only if that is what was found, byte by byte. So nothing
// that nobody signed can ride on it into an install's registry.

import {
  createHash,
  createPublicKey,
  type KeyObject,
  sign as signBytes,
  verify as verifyBytes,
} from "node:crypto";
import {
  canonicalBytes,
  type Digest,
  digestOfBytes,
  Failure,
  IN_TOTO_PAYLOAD_TYPE,
  type KeyScheme,
  openStatement,
  preAuthEncoding,
  RELEASE_PREDICATE_TYPE,
  type ReleaseStatement,
  type StatementEnvelope,
  statementBytes,
  type TrustedRole,
} from "@exclave/core";
import { z } from "zod";
import { type ContentStore, readBlobBytes, writeBlobBytes } from "../content/content-store.ts";
import { MEDIA_TYPES, parseManifest } from "../content/descriptor.ts";
import { SIGNATURE_TYPE } from "./media-types.ts";

/** Nobody states one release this often; a registry full of rubbish must end too. */
const STATEMENTS_MAX = 64;
const BUNDLE_BYTES_MAX = 1024 * 1024;
const MANIFEST_BYTES_MAX = 16 * 1024;

/** Whoever holds a private key of the release role: this process, or a key service. */
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

/** A statement ready to be pushed: its manifest and the two blobs below it. */
export interface StatementArtifact {
  readonly digest: Digest;
  readonly mediaType: string;
  readonly manifest: Uint8Array;
  readonly blobs: readonly { readonly mediaType: string; readonly bytes: Uint8Array }[];
}

export async function signStatement(
  statement: ReleaseStatement,
  signers: readonly Signer[],
): Promise<StatementArtifact> {
  const payload = statementBytes(statement);
  const signed = preAuthEncoding(IN_TOTO_PAYLOAD_TYPE, payload);
  const signatures = await Promise.all(
    signers.map(async (signer) => ({ sig: toText(await signer.sign(signed)) })),
  );
  const [first] = signers;
  if (!first) throw new Failure("invalid", "a statement is signed by somebody");
  const envelope: StatementEnvelope = {
    payloadType: IN_TOTO_PAYLOAD_TYPE,
    payload: toText(payload),
    signatures,
  };
  return statementArtifact(statement, { envelope, hint: keyHint(spkiOf(first.publicKey)) });
}

/** The one spelling of a statement with these signatures. */
function statementArtifact(
  { index }: ReleaseStatement,
  { envelope, hint }: { readonly envelope: StatementEnvelope; readonly hint: string },
): StatementArtifact {
  const bundle = canonicalBytes({
    mediaType: SIGNATURE_TYPE,
    verificationMaterial: { publicKey: { hint } },
    dsseEnvelope: envelope,
  });
  const blobs = [
    { mediaType: SIGNATURE_TYPE, bytes: bundle },
    { mediaType: MEDIA_TYPES.empty, bytes: Buffer.from("{}") },
  ];
  const [layer, config] = blobs.map(({ mediaType, bytes }) => ({
    mediaType,
    digest: digestOfBytes(bytes),
    size: bytes.length,
  }));
  const manifest = canonicalBytes({
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.manifest,
    artifactType: SIGNATURE_TYPE,
    config,
    layers: [layer],
    subject: { mediaType: MEDIA_TYPES.index, digest: index.digest, size: index.sizeBytes },
    annotations: {
      "dev.sigstore.bundle.content": "dsse-envelope",
      "dev.sigstore.bundle.predicateType": RELEASE_PREDICATE_TYPE,
    },
  });
  return { digest: digestOfBytes(manifest), mediaType: MEDIA_TYPES.manifest, manifest, blobs };
}

export async function writeStatement(
  store: ContentStore,
  repository: string,
  { mediaType, manifest, blobs }: StatementArtifact,
): Promise<Digest> {
  for (const blob of blobs) await writeBlobBytes(store, repository, blob.mediaType, blob.bytes);
  return store.writeManifest(repository, manifest, mediaType);
}

export interface ReadStatement {
  readonly store: ContentStore;
  /** Where the index lies in that store. */
  readonly repository: string;
  readonly index: Digest;
  readonly role: TrustedRole;
  readonly signal?: AbortSignal | undefined;
}

export interface FoundStatement {
  readonly statement: ReleaseStatement;
  readonly envelope: StatementEnvelope;
  /** The referrer it lies in. */
  readonly artifact: Digest;
}

/**
 * The statement of a release, if one lies beside its index that enough of the role's keys signed;
 * otherwise why not. Failing to reach the store is no answer, and throws.
 */
export async function readStatement(
  options: ReadStatement,
): Promise<FoundStatement | { readonly because: string }> {
  const { store, repository, index, signal } = options;
  const attached = await store.referrers(repository, index, {
    signal,
    artifactType: SIGNATURE_TYPE,
  });
  const reasons: string[] = [];
  for (const { digest: artifact } of attached.slice(0, STATEMENTS_MAX)) {
    const found = judge(await readBundle(store, repository, artifact), artifact, options);
    if (!("because" in found)) return found;
    reasons.push(found.because);
  }
  return { because: reasons[0] ?? `nobody has signed a statement of ${index}` };
}

const Bundle = z.looseObject({ dsseEnvelope: z.unknown() });

function judge(
  bundle: unknown,
  artifact: Digest,
  { index, role }: ReadStatement,
): FoundStatement | { readonly because: string } {
  const because = (what: string) => ({ because: `${artifact}: ${what}` });
  const envelope = Bundle.safeParse(bundle).data?.dsseEnvelope;
  const opened = openStatement({ envelope, index, role, verify: verifySignature });
  if (opened.kind === "refused") return because(opened.because);
  const [key] = opened.signedBy;
  const hint = keyHint(Buffer.from(key?.spki ?? "", "base64"));
  const written = statementArtifact(opened.statement, { envelope: opened.envelope, hint });
  if (written.digest !== artifact) return because("it carries more than what was signed");
  return { statement: opened.statement, envelope: opened.envelope, artifact };
}

async function readBundle(
  store: ContentStore,
  repository: string,
  artifact: Digest,
): Promise<unknown> {
  try {
    const { bytes, mediaType } = await store.readManifest(repository, artifact);
    if (bytes.length > MANIFEST_BYTES_MAX) return undefined;
    const parsed = parseManifest(bytes, mediaType);
    const layer = parsed.kind === "manifest" ? parsed.manifest.layers[0] : undefined;
    if (!layer || layer.size > BUNDLE_BYTES_MAX) return undefined;
    return parseJson(await readBlobBytes(store, repository, layer));
  } catch (reason) {
    // Anybody may attach rubbish; it must not hide the good statement beside it.
    if (reason instanceof Failure && RUBBISH.has(reason.code)) return undefined;
    throw reason;
  }
}

const RUBBISH: ReadonlySet<string> = new Set(["invalid", "not_found", "too_large"]);

/** By a key given as base64 of its SPKI DER; a key that is none of its scheme verifies nothing. */
export function verifySignature(
  spki: string,
  bytes: Uint8Array,
  signature: Uint8Array,
  scheme: KeyScheme,
): boolean {
  try {
    const der = Buffer.from(spki, "base64");
    const key = createPublicKey({ key: der, format: "der", type: "spki" });
    if (schemeOf(key) !== scheme) return false;
    return verifyBytes(algorithmOf(key), bytes, key, signature);
  } catch {
    return false;
  }
}

function algorithmOf(key: KeyObject): "sha256" | null {
  return schemeOf(key) === "ecdsa-p256" ? "sha256" : null;
}

export function schemeOf(key: KeyObject): KeyScheme {
  const { namedCurve } = key.asymmetricKeyDetails ?? {};
  if (key.asymmetricKeyType === "ec" && namedCurve === "prime256v1") return "ecdsa-p256";
  if (key.asymmetricKeyType === "ed25519") return "ed25519";
  throw new Failure("invalid", "releases are signed with P-256 or Ed25519 keys");
}

function spkiOf(key: KeyObject): Uint8Array {
  return key.export({ type: "spki", format: "der" });
}

/** How sigstore tells keys apart; a help for people, no proof of anything. */
function keyHint(spki: Uint8Array): string {
  return createHash("sha256").update(spki).digest("base64");
}

function toText(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch {
    return undefined;
  }
}
