import assert from "node:assert/strict";
import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { test } from "node:test";
import {
  AppId,
  ComponentName,
  ComponentType,
  canonicalBytes,
  type Digest,
  digestOf,
  Failure,
  Instant,
  preAuthEncoding,
  type ReleaseStatement,
  statementFor,
} from "@exclave/core";
import { type ContentStore, readBlobBytes, writeBlobBytes } from "../content/content-store.ts";
import { MEDIA_TYPES, parseManifest } from "../content/descriptor.ts";
import { createMemoryStore } from "../content/memory-store.ts";
import { packIndex } from "../pack/pack.ts";
import { SIGNATURE_TYPE } from "./media-types.ts";
import {
  createSigner,
  readStatement,
  type Signer,
  schemeOf,
  signStatement,
  writeStatement,
} from "./release-statement.ts";
import { writeDocument } from "./write-document.ts";

const repository = "releases/shop";
const keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
const strangers = generateKeyPairSync("ec", { namedCurve: "P-256" });
const second = generateKeyPairSync("ed25519");
const signer = createSigner(keys.privateKey);

async function world() {
  const store = createMemoryStore();
  const written = await packIndex({ store, repository, manifests: [], annotations: { is: "1" } });
  const other = await packIndex({ store, repository, manifests: [], annotations: { is: "2" } });
  return { store, index: written, other };
}

function stated({ digest, size }: { digest: Digest; size: number }): ReleaseStatement {
  return statementFor({
    app: AppId.parse("pshopaaaaaaaaaaaa"),
    appName: "shop",
    release: "r1",
    number: 1,
    versionName: "1",
    index: { repository, digest, sizeBytes: size },
    components: [
      {
        name: ComponentName.parse("api"),
        type: ComponentType.parse("command"),
        plugin: { repository: "exclave/plugins/command", digest: digestOf("plugin") },
        config: { run: "x" },
        effects: { apply: "idempotent" },
      },
    ],
    runner: { repository: "exclave/runner", digest: digestOf("runner") },
    sandboxes: [],
    rollbackTo: { numberMin: 1 },
    createdAt: Instant.parse(0),
  });
}

async function attachStatement(
  store: ContentStore,
  index: { digest: Digest; size: number },
  signers: readonly Signer[] = [signer],
): Promise<Digest> {
  return writeStatement(store, repository, await signStatement(stated(index), signers));
}

function read(
  store: ContentStore,
  index: Digest,
  trusted: readonly KeyObject[] = [keys.publicKey],
  threshold = 1,
) {
  const role = {
    keys: trusted.map((key, at) => ({ keyid: `k${at}`, spki: spki(key), scheme: schemeOf(key) })),
    threshold,
  };
  return readStatement({ store, repository, index, role });
}

function spki(key: KeyObject): string {
  return key.export({ type: "spki", format: "der" }).toString("base64");
}

/** Attaches a bundle as anybody who can push could. */
async function attach(
  store: ContentStore,
  { digest, size }: { digest: Digest; size: number },
  bundle: Uint8Array,
  more: Record<string, unknown> = {},
): Promise<Digest> {
  const layer = await writeBlobBytes(store, repository, SIGNATURE_TYPE, bundle);
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const written = await writeDocument(
    { store, repository },
    {
      schemaVersion: 2,
      mediaType: MEDIA_TYPES.manifest,
      artifactType: SIGNATURE_TYPE,
      config,
      layers: [layer],
      subject: { mediaType: MEDIA_TYPES.index, digest, size },
      ...more,
    },
  );
  return written.digest;
}

async function bundleOf(store: ContentStore, artifact: Digest): Promise<Uint8Array> {
  const { bytes, mediaType } = await store.readManifest(repository, artifact);
  const parsed = parseManifest(bytes, mediaType);
  assert.ok(parsed.kind === "manifest" && parsed.manifest.layers[0]);
  return readBlobBytes(store, repository, parsed.manifest.layers[0]);
}

function assertRefused(found: Awaited<ReturnType<typeof read>>, because: RegExp): void {
  assert.ok("because" in found, JSON.stringify(found));
  assert.match(found.because, because);
}

for (const [kind, pair] of [
  ["P-256", keys],
  ["Ed25519", second],
] as const) {
  test(`a statement signed with a ${kind} key is read with its public half`, async () => {
    const { store, index } = await world();
    const artifact = await attachStatement(store, index, [createSigner(pair.privateKey)]);

    const found = await read(store, index.digest, [pair.publicKey]);

    assert.ok(!("because" in found), JSON.stringify(found));
    assert.deepEqual(found.statement, stated(index));
    assert.equal(found.artifact, artifact);
  });
}

test("a statement by a stranger, or by nobody, is none", async () => {
  const { store, index } = await world();
  assertRefused(await read(store, index.digest), /nobody has signed/);

  await attachStatement(store, index, [createSigner(strangers.privateKey)]);

  assertRefused(await read(store, index.digest), /not signed by enough keys/);
});

test("a threshold of two takes two keys", async () => {
  const both = [keys.publicKey, second.publicKey];
  const { store, index } = await world();
  await attachStatement(store, index);
  assertRefused(await read(store, index.digest, both, 2), /not signed by enough keys/);

  await attachStatement(store, index, [signer, createSigner(second.privateKey)]);

  const found = await read(store, index.digest, both, 2);
  assert.ok(!("because" in found), JSON.stringify(found));
});

test("a statement of another release, attached to this one, is refused", async () => {
  const { store, index, other } = await world();
  const artifact = await attachStatement(store, other);
  await attach(store, index, await bundleOf(store, artifact));

  assertRefused(await read(store, index.digest), /about another release/);
});

test("rubbish beside a good statement does not hide it", async () => {
  const { store, index } = await world();
  await attach(store, index, Buffer.from("rubbish"));
  await attach(store, index, Buffer.alloc(2 * 1024 * 1024, "["));

  const artifact = await attachStatement(store, index);

  const found = await read(store, index.digest);
  assert.equal("because" in found ? found.because : found.artifact, artifact);
});

test("nothing rides on a statement: one that carries more than was signed is refused", async () => {
  const { store, index } = await world();
  const honest = JSON.parse(
    Buffer.from(await bundleOf(store, await attachStatement(store, index))).toString(),
  );
  const bundles = {
    "another field": { ...honest, more: "cargo" },
    "another hint": { ...honest, verificationMaterial: { publicKey: { hint: "cargo" } } },
    "a second signature": {
      ...honest,
      dsseEnvelope: {
        ...honest.dsseEnvelope,
        signatures: [...honest.dsseEnvelope.signatures, { sig: "Y2FyZ28=" }],
      },
    },
  };
  for (const [what, bundle] of Object.entries(bundles)) {
    const fresh = await world();
    await attach(fresh.store, fresh.index, canonicalBytes(bundle));
    assertRefused(await read(fresh.store, index.digest), /carries more/);
    assert.ok(what);
  }
  const annotated = await world();
  const annotations = { cargo: "x" };
  await attach(annotated.store, annotated.index, canonicalBytes(honest), { annotations });
  assertRefused(await read(annotated.store, index.digest), /carries more/);
});

test("what the key signed for cosign is no statement of a release", async () => {
  const { store, index } = await world();
  const payload = canonicalBytes({
    _type: "https://in-toto.io/Statement/v1",
    subject: [{ digest: { sha256: index.digest.slice(7) } }],
    predicateType: "https://sigstore.dev/cosign/sign/v1",
    predicate: {},
  });
  const payloadType = "application/vnd.in-toto+json";
  const sig = sign("sha256", preAuthEncoding(payloadType, payload), keys.privateKey);
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
  const signatures = [{ sig: text(sig) }];
  const dsseEnvelope = { payloadType, payload: text(payload), signatures };
  await attach(store, index, canonicalBytes({ dsseEnvelope }));

  assertRefused(await read(store, index.digest), /no release statement/);
});

test("a store that cannot be reached is no verdict", async () => {
  const { store, index } = await world();
  await attachStatement(store, index);
  const broken: ContentStore = {
    ...store,
    readManifest: () => Promise.reject(new Failure("unavailable", "away")),
  };

  await assert.rejects(read(broken, index.digest), { code: "unavailable" });
});
