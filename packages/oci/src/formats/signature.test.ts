import assert from "node:assert/strict";
import { generateKeyPairSync, sign } from "node:crypto";
import { test } from "node:test";
import { canonicalBytes, type Digest, preAuthEncoding } from "@exclave/core";
import { type ContentStore, readBlobBytes, writeBlobBytes } from "../content-store.ts";
import { type ImageManifest, MEDIA_TYPES, parseManifest } from "../descriptor.ts";
import { createMemoryStore } from "../memory-store.ts";
import { packIndex } from "../pack.ts";
import { SIGNATURE_TYPE } from "./media-types.ts";
import { createSigner, signArtifact, verifyArtifactSignature } from "./signature.ts";
import { writeDocument } from "./write-document.ts";

const repository = "releases/shop";
const keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
const strangers = generateKeyPairSync("ec", { namedCurve: "P-256" });
const signer = createSigner(keys.privateKey);
const publicKeys = [keys.publicKey];

async function world() {
  const store = createMemoryStore();
  const release = await packIndex({ store, repository, manifests: [], annotations: { is: "one" } });
  const other = await packIndex({ store, repository, manifests: [], annotations: { is: "two" } });
  return { store, repository, digest: release.digest, other: other.digest };
}

/** Attaches a bundle as anybody who can push could. */
async function attach(store: ContentStore, subject: Digest, bundle: Uint8Array): Promise<void> {
  const layer = await writeBlobBytes(store, repository, SIGNATURE_TYPE, bundle);
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const manifest: ImageManifest = {
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.manifest,
    artifactType: SIGNATURE_TYPE,
    config,
    layers: [layer],
    subject: { mediaType: MEDIA_TYPES.index, digest: subject, size: 1 },
  };
  await writeDocument({ store, repository }, manifest);
}

async function bundleOf(store: ContentStore, signature: Digest): Promise<Uint8Array> {
  const { bytes, mediaType } = await store.readManifest(repository, signature);
  const parsed = parseManifest(bytes, mediaType);
  assert.ok(parsed.kind === "manifest" && parsed.manifest.layers[0]);
  return readBlobBytes(store, repository, parsed.manifest.layers[0]);
}

for (const [kind, pair] of [
  ["P-256", keys],
  ["Ed25519", generateKeyPairSync("ed25519")],
] as const) {
  test(`what was signed with a ${kind} key verifies with its public half`, async () => {
    const { store, digest } = await world();

    const signature = await signArtifact({
      store,
      repository,
      digest,
      signer: createSigner(pair.privateKey),
    });

    const verdict = await verifyArtifactSignature({
      store,
      repository,
      digest,
      publicKeys: [strangers.publicKey, pair.publicKey],
    });
    assert.deepEqual(verdict, { kind: "signed", signature, publicKey: pair.publicKey });
    const [referrer] = await store.referrers(repository, digest);
    assert.equal(referrer?.artifactType, SIGNATURE_TYPE);
  });
}

test("signing twice with one key leaves one signature", async () => {
  const { store, digest } = await world();

  const first = await signArtifact({ store, repository, digest, signer });
  const second = await signArtifact({ store, repository, digest, signer });

  assert.equal(second, first);
  assert.equal((await store.referrers(repository, digest)).length, 1);
});

test("what nobody signed is unsigned, and so is what a stranger signed", async () => {
  const { store, digest } = await world();
  const check = () => verifyArtifactSignature({ store, repository, digest, publicKeys });
  assert.match(because(await check()), /nobody has signed/);

  const byStranger = createSigner(strangers.privateKey);
  await signArtifact({ store, repository, digest, signer: byStranger });

  assert.match(because(await check()), /a key that is not trusted here/);
});

test("a signature of one artifact does not count for another", async () => {
  const { store, digest, other } = await world();
  const signature = await signArtifact({ store, repository, digest: other, signer });

  await attach(store, digest, await bundleOf(store, signature));

  const verdict = await verifyArtifactSignature({ store, repository, digest, publicKeys });
  assert.match(because(verdict), /is about another artifact/);
});

test("a changed statement does not verify", async () => {
  const { store, digest, other } = await world();
  const signature = await signArtifact({ store, repository, digest: other, signer });
  const bundle = JSON.parse(Buffer.from(await bundleOf(store, signature)).toString());
  const payload = Buffer.from(bundle.dsseEnvelope.payload, "base64").toString();
  const forged = payload.replace(other.slice(7), digest.slice(7));
  bundle.dsseEnvelope.payload = Buffer.from(forged).toString("base64");

  await attach(store, digest, canonicalBytes(bundle));

  const verdict = await verifyArtifactSignature({ store, repository, digest, publicKeys });
  assert.match(because(verdict), /not trusted here/);
});

test("a good signature of something that is no statement of ours does not count", async () => {
  const { store, digest } = await world();
  const payload = canonicalBytes({
    _type: "https://in-toto.io/Statement/v1",
    predicateType: "https://slsa.dev/provenance/v1",
    subject: [{ digest: { sha256: digest.slice(7) } }],
  });
  const payloadType = "application/vnd.in-toto+json";
  const sig = sign("sha256", preAuthEncoding(payloadType, payload), keys.privateKey);
  const dsseEnvelope = {
    payloadType,
    payload: Buffer.from(payload).toString("base64"),
    signatures: [{ sig: sig.toString("base64") }],
  };

  await attach(store, digest, canonicalBytes({ dsseEnvelope }));

  const verdict = await verifyArtifactSignature({ store, repository, digest, publicKeys });
  assert.match(because(verdict), /says nothing about an artifact/);
});

test("rubbish beside a good signature does not hide it", async () => {
  const { store, digest } = await world();
  for (const rubbish of ["", "{}", "not json", "x".repeat(2_000_000)]) {
    await attach(store, digest, Buffer.from(rubbish));
  }

  const signature = await signArtifact({ store, repository, digest, signer });

  const verdict = await verifyArtifactSignature({ store, repository, digest, publicKeys });
  assert.equal(verdict.kind === "signed" && verdict.signature, signature);
});

test("a store that cannot be reached is a failure, not a verdict", async () => {
  const { store, digest } = await world();
  const broken: ContentStore = {
    ...store,
    referrers: () => Promise.reject(new Error("connection reset")),
  };

  const checking = verifyArtifactSignature({ store: broken, repository, digest, publicKeys });

  await assert.rejects(checking, /connection reset/);
});

test("what is not there cannot be signed", async () => {
  const { store } = await world();
  const digest = `sha256:${"0".repeat(64)}` as Digest;

  await assert.rejects(signArtifact({ store, repository, digest, signer }), { code: "not_found" });
});

test("keys of other kinds are refused", () => {
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });

  assert.throws(() => createSigner(rsa.privateKey), /P-256 or Ed25519/);
});

function because(verdict: Awaited<ReturnType<typeof verifyArtifactSignature>>): string {
  assert.equal(verdict.kind, "unsigned");
  return verdict.kind === "unsigned" ? verdict.because : "";
}
