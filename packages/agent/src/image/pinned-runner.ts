// The runner brings everything else into the install's registry, so it cannot be only there. A copy of
// the one that ran last lies beside the agent as an OCI layout, and is put back when the registry has
// lost it or holds it damaged.

import { mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { ArtifactRef } from "@exclave/core";
import { type Access, copyArtifact, createLayoutStore, createRegistryClient } from "@exclave/oci";
import type { OwnRegistry } from "../sandbox/sandbox.ts";

export interface PinnedRunner {
  /** Keeps a copy of what lies in the install's registry; the newest two are kept. */
  pin(ref: ArtifactRef): Promise<void>;
  /** Puts the copy back where the registry lost it; false when there is no copy of it. */
  restore(ref: ArtifactRef): Promise<boolean>;
}

const KEPT_MAX = 2;

export function createPinnedRunner(
  directory: string,
  registry: Pick<OwnRegistry, "url" | "ca" | "socket" | "token">,
): PinnedRunner {
  const place = ({ digest }: ArtifactRef) => join(directory, digest.replace(":", "-"));
  return { pin, restore };

  async function pin(ref: ArtifactRef): Promise<void> {
    const path = place(ref);
    if (await isThere(path)) return;
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const draft = `${path}.draft`;
    await rm(draft, { recursive: true, force: true });
    const { repository, digest } = ref;
    await withRegistry(ref, ["pull"], async (from) => {
      const to = createLayoutStore({ directory: draft });
      await copyArtifact({ from, to, source: { repository, digest }, target: { repository } });
    });
    await rename(draft, path);
    await dropOld();
  }

  async function restore(ref: ArtifactRef): Promise<boolean> {
    if (!(await isThere(place(ref)))) return false;
    const { repository, digest } = ref;
    await withRegistry(ref, ["pull", "push"], async (to) => {
      // What is damaged there has to be gone before it can be re-synced.
      await to.headManifest(repository, digest, { verify: true });
      const from = createLayoutStore({ directory: place(ref) });
      await copyArtifact({ from, to, source: { repository, digest }, target: { repository } });
    });
    return true;
  }

  async function withRegistry(
    { repository }: ArtifactRef,
    actions: Access["actions"],
    work: (client: ReturnType<typeof createRegistryClient>) => Promise<void>,
  ): Promise<void> {
    const access: Access[] = [{ type: "repository", name: repository, actions }];
    const { url, ca, socket } = registry;
    const client = createRegistryClient({ url, ca, socket, token: await registry.token(access) });
    try {
      await work(client);
    } finally {
      client.close();
    }
  }

  async function dropOld(): Promise<void> {
    const names = await readdir(directory);
    const pins = await Promise.all(
      names.map(async (name) => ({ name, at: (await stat(join(directory, name))).mtimeMs })),
    );
    const old = pins.sort((a, b) => b.at - a.at).slice(KEPT_MAX);
    for (const { name } of old) await rm(join(directory, name), { recursive: true, force: true });
  }
}

function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
