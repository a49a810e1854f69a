// Whoever has the director's key and nothing else: manifests that are signed as they should be, of a
// real release, with one thing in each that no statement says.

import assert from "node:assert/strict";
import { createPrivateKey, createPublicKey, type KeyObject, randomBytes, sign } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ReleaseView } from "@exclave/api";
import {
  type ArtifactRef,
  Digest,
  digestOf,
  type Effect,
  idFromBytes,
  MANIFEST_PAYLOAD_TYPE,
  Manifest,
  manifestBytes,
  type Operation,
  parseApp,
  ReleaseStatement,
  sha256Hex,
  signEnvelope,
} from "@exclave/core";
import { parseManifest, type RegistryFiles, readBlobBytes } from "@exclave/oci";
import type { World } from "../../testing/harness.ts";
import type { Lie } from "./lying-server.ts";

export interface Director {
  readonly key: KeyObject;
  readonly keyid: string;
  readonly audience: string;
  readonly app: string;
  /** Configurations as the vendor wrote them, by component. */
  readonly config: Readonly<Record<string, Record<string, unknown>>>;
  readonly generatedSecrets: Manifest["generatedSecrets"];
}

export interface DirectorLie extends Lie {
  /** The codes it may be refused with. */
  readonly codes: readonly string[];
}

/** What whoever took the server of this world can say to an install of the shop. */
export function directorOf(world: World, install: string): Director {
  const identityFile = join(world.home, "installs", install, "agent/identity.json");
  const { audience, app } = JSON.parse(readFileSync(identityFile, "utf8")) as {
    audience: string;
    app: string;
  };
  const file = "exclave.yaml";
  const parsed = parseApp(readFileSync(join(world.place, "shop", file), "utf8"), { file });
  assert.ok(parsed.app);
  const keys = join(world.home, "server/keys");
  const name = readdirSync(keys).find((entry) => entry.startsWith("director")) ?? "director";
  const key = createPrivateKey(readFileSync(join(keys, name)));
  return {
    key,
    keyid: sha256Hex(createPublicKey(key).export({ format: "der", type: "spki" })),
    audience,
    app,
    config: Object.fromEntries(parsed.app.components.map((each) => [each.name, each.config])),
    generatedSecrets: parsed.app.secrets.flatMap(({ name: secret, generate }) =>
      generate ? [{ name: secret, ...generate }] : [],
    ),
  };
}

let issueNo = 1_000_000;

/** A job of the component `web` of this release, faultless but for the changes. */
export function lieOf(
  director: Director,
  name: string,
  operation: Operation,
  of: ReleaseStatement,
  { step = {}, codes = ["unreleased"], ...changes }: LieChanges = {},
): DirectorLie {
  const inputs = { title: "Acme" };
  const now = Date.now();
  issueNo += 1;
  const manifest = Manifest.parse({
    version: 1,
    id: idFromBytes("j", randomBytes(10)),
    attempt: 1,
    audience: director.audience,
    issueNo,
    operation,
    app: director.app,
    release: of.release,
    steps: [{ ...stepOf(director, operation, of), ...step }],
    inputs,
    inputsDigest: digestOf(inputs),
    generatedSecrets: director.generatedSecrets,
    notBefore: now - 1_000,
    notAfter: now + 3_600_000,
    deadlineMs: 60_000,
    requestedBy: "liar",
    because: "to see what happens",
    ...changes,
  });
  const signer = {
    keyid: director.keyid,
    sign: (bytes: Uint8Array) => sign(null, bytes, director.key),
  };
  const envelope = signEnvelope(MANIFEST_PAYLOAD_TYPE, manifestBytes(manifest), signer);
  return { name, job: manifest.id, attempt: 1, envelope, codes };
}

interface LieChanges {
  readonly step?: Readonly<Record<string, unknown>>;
  readonly codes?: readonly string[];
  readonly [field: string]: unknown;
}

function stepOf({ config }: Director, operation: Operation, of: ReleaseStatement) {
  const releases = [refOf(of.index)];
  if (operation === "sync") {
    const materials = [{ name: "release", ...refOf(of.index) }];
    return { operation, plugin: of.runner, config: {}, effect: "idempotent", materials, releases };
  }
  const web = of.components.find(({ name }) => name === "web");
  const effects: Partial<Record<Operation, Effect>> = web?.effects ?? {};
  return {
    operation,
    plugin: web?.plugin,
    component: "web",
    type: web?.type,
    artifact: web?.artifact,
    config: config["web"],
    parameters: operation === "exec" ? { command: ["true"], timeoutSeconds: 10 } : {},
    effect: effects[operation] ?? "idempotent",
    releases,
  };
}

export function refOf({ repository, digest }: ArtifactRef): ArtifactRef {
  return { repository, digest };
}

/** The statement that lies beside a release in the vendor's registry. */
export async function statementIn(
  store: RegistryFiles,
  { digest, appId }: ReleaseView,
): Promise<ReleaseStatement> {
  const repository = `releases/${appId}`;
  const [referrer] = await store.referrers(repository, Digest.parse(digest));
  const { bytes, mediaType } = await store.readManifest(repository, referrer?.digest ?? "");
  const manifest = parseManifest(bytes, mediaType);
  assert.ok(manifest.kind === "manifest" && manifest.manifest.layers[0]);
  const bundle = await readBlobBytes(store, repository, manifest.manifest.layers[0]);
  const { dsseEnvelope } = JSON.parse(Buffer.from(bundle).toString());
  const inToto = JSON.parse(Buffer.from(dsseEnvelope.payload, "base64").toString());
  return ReleaseStatement.parse(inToto.predicate);
}
