// Both sides of an air gap: a vendor's registry with a release in it, and the home of an install whose
// own registry runs. What happens between them is done by the real program.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";
import {
  AppId,
  ComponentName,
  ComponentType,
  type Digest,
  digestOf,
  Instant,
  type KeyScheme,
  newTrust,
  sha256Hex,
  statementFor,
  TRUST_PAYLOAD_TYPE,
  type TrustedKey,
  trustBytes,
} from "@exclave/core";
import { type ContentStore, writeBlobBytes } from "../../content/content-store.ts";
import { type Descriptor, MEDIA_TYPES } from "../../content/descriptor.ts";
import { RELEASE_TYPE } from "../../formats/media-types.ts";
import { createSigner, signStatement, writeStatement } from "../../formats/release-statement.ts";
import { writeDocument } from "../../formats/write-document.ts";
import { packIndex } from "../../pack/pack.ts";
import { createRegistryFiles } from "../../registry/files/registry-files.ts";
import { serveRegistry } from "../../registry/serve-registry.ts";
import { temporaryDirectory } from "../../testing/temporary-directory.ts";

export const repository = "releases/pshopaaaaaaaaaaaa";
export const vendor = generateKeyPairSync("ec", { namedCurve: "P-256" });
export const stranger = generateKeyPairSync("ec", { namedCurve: "P-256" });
export const materials = [
  { name: "runner", repository: "exclave/runner" },
  { name: "plugin:command", repository: "exclave/plugins/command" },
  { name: "api", repository: "apps/pshopaaaaaaaaaaaa/api" },
  { name: "web", repository: "apps/pshopaaaaaaaaaaaa/web", platforms: ["amd64", "arm64"] },
];

export async function airGap(
  t: TestContext,
  signedBy: KeyObject | null = vendor.privateKey,
  stated: Parameters<typeof sign>[3] = {},
) {
  const directory = await temporaryDirectory(t);
  const content = join(directory, "vendor");
  const store = createRegistryFiles(content);
  const release = await writeRelease(store, signedBy, stated);
  const auth = { kind: "anonymous" } as const;
  const registry = await serveRegistry({ directory: content, host: "127.0.0.1", port: 0, auth });
  t.after(() => registry.close());

  let count = 0;
  const write = async () => {
    const file = join(directory, `bundle-${count++}.oci.tar`);
    const source = ["--registry", registry.url, "--repository", repository];
    const { code, lines } = await run(
      "write",
      ...source,
      "--digest",
      release.digest,
      "--file",
      file,
    );
    assert.equal(code, 0, JSON.stringify(lines));
    return file;
  };
  return { release, store, write, bundle: await write(), install: await createInstall(t) };
}

async function writeRelease(
  store: ContentStore,
  signedBy: KeyObject | null,
  stated: Parameters<typeof sign>[3],
) {
  const entries: Descriptor[] = [];
  for (const { name, repository: home, platforms } of materials) {
    const made = platforms
      ? await writeImages(store, name, platforms)
      : await writeFiles(store, name);
    const annotations = { "dev.exclave.material": name, "dev.exclave.repository": home };
    entries.push({ ...made, annotations });
  }
  const { digest } = await writeDocument(
    { store, repository, tag: "r-1" },
    {
      schemaVersion: 2,
      mediaType: MEDIA_TYPES.index,
      artifactType: RELEASE_TYPE,
      manifests: entries,
      annotations: {
        "org.opencontainers.image.title": "shop",
        "org.opencontainers.image.version": "1",
        "dev.exclave.release": "r-1",
        "dev.exclave.app": "pshopaaaaaaaaaaaa",
      },
    },
  );
  if (signedBy) await sign(store, { digest, entries }, signedBy, stated);
  return { digest, entries };
}

async function writeImages(store: ContentStore, name: string, platforms: readonly string[]) {
  const manifests: Descriptor[] = [];
  for (const architecture of platforms) {
    const made = await writeFiles(store, `${name} for ${architecture}`);
    manifests.push({ ...made, platform: { os: "linux", architecture } });
  }
  return packIndex({ store, repository, manifests });
}

async function writeFiles(store: ContentStore, content: string): Promise<Descriptor> {
  const bytes = Buffer.alloc(5_000, content);
  const layer = await writeBlobBytes(store, repository, MEDIA_TYPES.files, bytes);
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const mediaType = MEDIA_TYPES.manifest;
  const layers = [layer];
  return writeDocument({ store, repository }, { schemaVersion: 2, mediaType, config, layers });
}

interface Written {
  readonly digest: Digest;
  readonly entries: readonly Descriptor[];
}

/** States the release, with every entry of its index or fewer, and signs that. */
export async function sign(
  store: ContentStore,
  { digest, entries }: Written,
  privateKey: KeyObject,
  { app = "pshopaaaaaaaaaaaa", unlisted = "" } = {},
): Promise<Digest> {
  const size = (await store.headManifest(repository, digest))?.size ?? assert.fail();
  const refs = new Map(
    entries.map((entry, place) => {
      const { name, repository: home } = materials[place] ?? assert.fail();
      const listed = name === unlisted ? digestOf("something else") : entry.digest;
      return [name, { repository: home, digest: listed }] as const;
    }),
  );
  const refOf = (name: string) => refs.get(name) ?? assert.fail(name);
  const statement = statementFor({
    app: AppId.parse(app),
    appName: "shop",
    release: "r-1",
    number: 1,
    versionName: "1",
    index: { repository, digest, sizeBytes: size },
    components: ["api", "web"].map((name) => ({
      name: ComponentName.parse(name),
      type: ComponentType.parse("command"),
      plugin: refOf("plugin:command"),
      artifact: refOf(name),
      config: {},
      effects: { apply: "idempotent" },
    })),
    runner: refOf("runner"),
    sandboxes: [],
    rollbackTo: { numberMin: 1 },
    createdAt: Instant.parse(0),
  });
  const artifact = await signStatement(statement, [createSigner(privateKey)]);
  return writeStatement(store, repository, artifact);
}

/** Attaches a document of the given type to something, as anybody who can write may. */
export async function attach(
  store: ContentStore,
  subject: Digest,
  { artifactType, layers }: { artifactType: string; layers: Descriptor[] },
): Promise<Digest> {
  const about = (await store.headManifest(repository, subject)) ?? assert.fail();
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const mediaType = MEDIA_TYPES.manifest;
  const document = { schemaVersion: 2, mediaType, artifactType, config, layers } as const;
  return (await writeDocument({ store, repository }, { ...document, subject: { ...about } }))
    .digest;
}

/** The bill of materials that nobody signed. */
export async function attachBill(store: ContentStore, subject: Digest): Promise<Digest> {
  const type = "application/spdx+json";
  const layer = await writeBlobBytes(store, repository, type, Buffer.alloc(5_000_000, 7));
  return attach(store, subject, { artifactType: type, layers: [layer] });
}

/** An install's home as its sandbox and its agent leave it, and its registry running. */
async function createInstall(t: TestContext) {
  const directory = await temporaryDirectory(t);
  const content = join(directory, "registry", "content");
  await mkdir(content, { recursive: true });
  await mkdir(join(directory, "agent"));
  const token = generateKeyPairSync("ed25519");
  const names = { issuer: "exclave-acme", service: "acme" };
  const registry = await serveRegistry({
    directory: content,
    host: "127.0.0.1",
    port: 0,
    auth: { kind: "token", realm: "https://none.invalid", publicKeys: [token.publicKey], ...names },
  });
  let isUp = true;
  const stop = async () => {
    if (isUp) await registry.close();
    isUp = false;
  };
  t.after(stop);
  const pem = token.privateKey.export({ type: "pkcs8", format: "pem" });
  await writeFile(join(directory, "registry", "token.key"), pem);
  const contract = {
    version: 1,
    kind: "local",
    install: { id: "iacmeaaaaaaaaaaaa", name: "acme" },
    registry: { url: registry.url, ...names },
    runtime: { type: "process", directory: join(directory, "runtime") },
  };
  await writeFile(join(directory, "sandbox.json"), JSON.stringify(contract));
  const identity = { app: "pshopaaaaaaaaaaaa" };
  await writeFile(join(directory, "agent", "identity.json"), JSON.stringify(identity));
  await writeFile(join(directory, "agent", "trust.json"), JSON.stringify(keptTrust()));
  return { directory, stop, store: createRegistryFiles(content) };
}

/** As an agent keeps it: verified when it came, so nobody looks at the signature again. */
function keptTrust(): object {
  const keyOf = (publicKey: KeyObject, scheme: KeyScheme): TrustedKey => {
    const der = publicKey.export({ type: "spki", format: "der" });
    return { keyid: sha256Hex(der), spki: der.toString("base64"), scheme };
  };
  const other = () => keyOf(generateKeyPairSync("ed25519").publicKey, "ed25519");
  const release = keyOf(vendor.publicKey, "ecdsa-p256");
  const document = newTrust(
    { root: other(), director: other(), checkpoint: other(), release },
    { origins: ["http://vendor.test"], now: Instant.parse(Date.now()) },
  );
  const payload = Buffer.from(trustBytes(document)).toString("base64");
  const signatures = [{ keyid: "root", sig: "AAAA" }];
  return { version: 1, envelope: { payloadType: TRUST_PAYLOAD_TYPE, payload, signatures } };
}

interface Line {
  readonly type: string;
  readonly [key: string]: unknown;
}

export function run(...args: string[]): Promise<{ code: number; lines: Line[] }> {
  const main = join(import.meta.dirname, "../../programs/release-bundle-main.ts");
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { env: {} }, (reason, stdout) => {
      const lines = stdout.split("\n").filter(Boolean);
      const code = reason ? Number(reason.code) : 0;
      resolve({ code, lines: lines.map((line) => JSON.parse(line) as Line) });
    });
  });
}

export async function contentOf(directory: string): Promise<string[]> {
  const found = await readdir(join(directory, "registry", "content"), {
    recursive: true,
    withFileTypes: true,
  });
  // By its lock a registry has the directory to itself; that is no content.
  return found.flatMap((entry) => (entry.isFile() && entry.name !== "lock" ? [entry.name] : []));
}

export async function workLeft(directory: string): Promise<string[]> {
  return (await readdir(join(directory, "registry"))).filter((name) => name.startsWith("load-"));
}
