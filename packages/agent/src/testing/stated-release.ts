// A vendor that states releases: keys, statements, and stores in which they lie.

import { generateKeyPairSync } from "node:crypto";
import {
  AppId,
  type ArtifactRef,
  ComponentName,
  ComponentType,
  canonicalBytes,
  digestOf,
  Instant,
  REPOSITORY_ANNOTATION,
  type ReleaseStatement,
  type StatedRelease,
  statementFor,
  type TrustedRole,
} from "@exclave/core";
import {
  type ContentStore,
  createSigner,
  MEDIA_TYPES,
  RELEASE_TYPE,
  type StatementArtifact,
  signStatement,
  writeBlobBytes,
  writeStatement,
} from "@exclave/oci";
import { DIGEST, spkiOf } from "./builders.ts";

export const APP = AppId.parse("pcrmaaaaaaaaaaaaa");
const EFFECTS = {
  plan: "idempotent",
  apply: "fenced",
  destroy: "fenced",
  status: "idempotent",
  logs: "idempotent",
  exec: "at-most-once",
} as const;

export interface Vendor {
  readonly role: TrustedRole;
  sign(statement: ReleaseStatement): Promise<StatementArtifact>;
}

export function createVendor(): Vendor {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const key = { keyid: "release", spki: spkiOf(publicKey), scheme: "ecdsa-p256" as const };
  return {
    role: { keys: [key], threshold: 1 },
    sign: (statement) => signStatement(statement, [createSigner(privateKey)]),
  };
}

export const RUNNER: ArtifactRef = { repository: "exclave/runner", digest: digestOf("runner") };

/** A release with the component `api`, as the builders' jobs have it. */
export function stated(number = 1, changes: Partial<StatedRelease> = {}): ReleaseStatement {
  return statementFor({
    app: APP,
    appName: "crm",
    release: `r${number}`,
    number,
    versionName: `${number}`,
    index: { repository: `releases/${APP}`, digest: digestOf({ index: number }), sizeBytes: 100 },
    components: [
      {
        name: ComponentName.parse("api"),
        type: ComponentType.parse("command"),
        plugin: { repository: "exclave/plugins/command", digest: DIGEST },
        config: {},
        effects: EFFECTS,
      },
    ],
    runner: RUNNER,
    sandboxes: [
      {
        type: ComponentType.parse("local"),
        image: { repository: "exclave/sandboxes/local", digest: digestOf("local") },
        effects: { apply: "idempotent", destroy: "idempotent" },
      },
    ],
    rollbackTo: { numberMin: Math.max(1, number - 1) },
    createdAt: Instant.parse(0),
    ...changes,
  });
}

/** Writes an index that lists these artifacts, and says what the statement needs of it. */
export async function writeIndex(
  store: ContentStore,
  entries: readonly ArtifactRef[],
  note = "a release",
): Promise<ReleaseStatement["index"]> {
  const repository = `releases/${APP}`;
  const manifests = [];
  for (const { repository: home, digest } of entries) {
    const { bytes, mediaType } = await store.readManifest(home, digest);
    const annotations = { [REPOSITORY_ANNOTATION]: home };
    manifests.push({ mediaType, digest, size: bytes.length, annotations });
  }
  const bytes = canonicalBytes({
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.index,
    artifactType: RELEASE_TYPE,
    manifests,
    annotations: { note },
  });
  const digest = await store.writeManifest(repository, bytes, MEDIA_TYPES.index);
  return { repository, digest, sizeBytes: bytes.length };
}

/** An artifact of one small layer. */
export async function writeArtifact(
  store: ContentStore,
  repository: string,
  text: string,
): Promise<ArtifactRef> {
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const layer = await writeBlobBytes(store, repository, "text/plain", Buffer.from(text));
  const mediaType = MEDIA_TYPES.manifest;
  const bytes = canonicalBytes({ schemaVersion: 2, mediaType, config, layers: [layer] });
  return { repository, digest: await store.writeManifest(repository, bytes, mediaType) };
}

/** A release in a store, stated and signed by this vendor. */
export async function writeRelease(
  store: ContentStore,
  vendor: Vendor,
  number = 1,
  changes: Partial<StatedRelease> = {},
): Promise<ReleaseStatement> {
  const index = await writeIndex(store, [], `release ${number}`);
  const statement = stated(number, { index, ...changes });
  await writeStatement(store, index.repository, await vendor.sign(statement));
  return statement;
}
