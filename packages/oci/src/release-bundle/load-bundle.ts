// Takes a bundle into an install's own registry, without the vendor's. All of it is checked first:
// one that is damaged, or signed by somebody else, leaves nothing behind.

import { randomUUID } from "node:crypto";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import {
  artifactKey,
  type Digest,
  Failure,
  listedBy,
  type ReleaseStatement,
  type TrustedRole,
} from "@exclave/core";
import { createRegistryClient } from "../client/registry-client.ts";
import { readLayoutArchive } from "../content/layout-archive.ts";
import { copyArtifact } from "../copy/copy.ts";
import { mintToken, type TokenKey } from "../credentials/token.ts";
import { readStatement } from "../formats/release-statement.ts";
import { type CheckedBundle, checkBundle } from "./check-bundle.ts";
import type { ReleaseIndex } from "./release-index.ts";

export interface LoadBundle {
  readonly file: string;
  /** On the install's own disk; what is made in it is gone at the end. */
  readonly workDirectory: string;
  readonly registry: InstallRegistry;
  /** Whose statement of the release counts. */
  readonly role: TrustedRole;
  /** The app the install is a copy of, where that is known. */
  readonly app?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onStep?: (message: string, done: number, total: number) => void;
}

export interface InstallRegistry {
  readonly url: string;
  readonly issuer: string;
  readonly service: string;
  /** Before every repository of the install, on a registry it shares; empty where it has its own. */
  readonly repository: string;
  readonly tokenKey: TokenKey;
}

export interface LoadedBundle {
  readonly release: ReleaseIndex;
  readonly signature: Digest;
  readonly copiedBytes: number;
  readonly skippedBytes: number;
}

const WORK = "load-";

export async function loadBundle(options: LoadBundle): Promise<LoadedBundle> {
  const { file, workDirectory, signal, onStep } = options;
  await sweep(workDirectory);
  const directory = await mkdtemp(join(workDirectory, WORK));
  try {
    onStep?.("check every digest", 0, 1);
    await readLayoutArchive(file, directory, signal);
    const bundle = await checkBundle(directory, signal);
    const signature = await checkStatement(bundle, options);
    return { release: bundle.release, signature, ...(await bring(bundle, signature, options)) };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** What a killed load left. */
async function sweep(workDirectory: string): Promise<void> {
  const names = await readdir(workDirectory);
  const left = names.filter((name) => name.startsWith(WORK));
  for (const name of left) await rm(join(workDirectory, name), { recursive: true, force: true });
}

/** The same statement that the agent wants of everything it runs, checked before a byte comes in. */
async function checkStatement(
  { store, release }: CheckedBundle,
  { role, app, signal }: LoadBundle,
): Promise<Digest> {
  const { repository, digest: index, version } = release;
  const found = await readStatement({ store, repository, index, role, signal });
  if ("because" in found) {
    const what = `release ${version} of ${release.app} is not signed by this install's vendor`;
    throw new Failure("signature", `${what}: ${found.because}`);
  }
  const { statement, artifact } = found;
  if (app !== undefined && statement.app !== app) {
    const message = `this is a release of ${statement.appName}, and not of this install's app`;
    throw new Failure("wrong_install", message);
  }
  checkListed(release, statement);
  return artifact;
}

function checkListed(release: ReleaseIndex, statement: ReleaseStatement): void {
  const listed = new Set(listedBy(statement).map(artifactKey));
  const stranger = release.materials.find((material) => !listed.has(artifactKey(material)));
  if (stranger) {
    throw new Failure("unreleased", `the release's statement does not list ${stranger.name}`);
  }
}

async function bring(
  { store, release }: CheckedBundle,
  signature: Digest,
  { registry, signal, onStep }: LoadBundle,
): Promise<{ copiedBytes: number; skippedBytes: number }> {
  const { repository } = release;
  // The release itself last: what is listed in it is there by then. Of what is attached to it only the
  // signature that was verified comes in, and nothing of what is attached to the rest.
  const entries = [
    ...release.materials,
    { name: "signature", repository, digest: signature },
    { name: "release", repository, digest: release.digest },
  ].map((entry) => ({ ...entry, repository: ownRepository(registry, entry.repository) }));
  const repositories = new Set(entries.map((entry) => entry.repository));
  const to = createRegistryClient({
    url: registry.url,
    token: () => pushToken(registry, [...repositories]),
  });
  const copied: string[] = [];
  let copiedBytes = 0;
  let skippedBytes = 0;
  try {
    for (const [index, entry] of entries.entries()) {
      onStep?.(`load ${entry.name}`, index, entries.length);
      const result = await copyArtifact({
        from: store,
        to,
        source: { repository, digest: entry.digest },
        target: {
          repository: entry.repository,
          ...(entry.digest === release.digest ? { tag: release.id } : {}),
        },
        mountFrom: [...copied],
        signal,
      });
      copiedBytes += result.copiedBytes;
      skippedBytes += result.skippedBytes;
      if (!copied.includes(entry.repository)) copied.push(entry.repository);
    }
  } finally {
    to.close();
  }
  return { copiedBytes, skippedBytes };
}

function ownRepository({ repository: prefix }: InstallRegistry, name: string): string {
  return prefix === "" ? name : `${prefix}/${name}`;
}

const TOKEN_TTL_MS = 300_000;

function pushToken(registry: InstallRegistry, repositories: readonly string[]): Promise<string> {
  return mintToken({
    privateKey: registry.tokenKey,
    issuer: registry.issuer,
    audience: registry.service,
    subject: "exclave install load",
    access: repositories.map((name) => ({
      type: "repository" as const,
      name,
      actions: ["pull", "push"] as const,
    })),
    ttlMs: TOKEN_TTL_MS,
    now: Date.now(),
    jti: randomUUID(),
  });
}
