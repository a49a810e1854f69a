// Images in the engine's store. The engine pulls nothing: an image is read from the install's registry by
// whoever holds its credential, checked byte by byte against its digest, and loaded. The engine knows it by
// the digest of its configuration, which names every layer, and by a tag that says whose it is.

import { Digest, Failure } from "@exclave/core";
import { type EngineClient, enginePath } from "@exclave/machine/engine";
import { z } from "zod";
import type { ImageRef } from "../job-runtime.ts";

/** Where images come from: the registry this install calls its own. */
export interface ImageArchives {
  open(ref: ImageRef): Promise<ImageArchive>;
}

export interface ImageArchive {
  /** The digest of its configuration. */
  readonly id: string;
  /** As `docker load` reads it, named by the tag; every byte checked before the last one is given. */
  read(tag: string): AsyncIterable<Uint8Array>;
  close(): void;
}

export interface EngineImages {
  /** The image's id in the engine, where it is now if it was not before. */
  provide(ref: ImageRef): Promise<string>;
}

const LOAD_TIMEOUT_MS = 10 * 60_000;
const Found = z.object({ Id: z.string(), RepoTags: z.array(z.string()).nullish() });

export function createEngineImages(options: {
  readonly engine: EngineClient;
  readonly archives: ImageArchives;
  /** Before every tag. */
  readonly repository: string;
}): EngineImages {
  const { engine, archives, repository } = options;
  /** A digest's image never changes. */
  const ids = new Map<string, string>();
  const loading = new Map<string, Promise<string>>();

  return { provide };

  async function provide(ref: ImageRef): Promise<string> {
    const digest = Digest.parse(ref.digest);
    const known = ids.get(digest);
    if (known !== undefined && (await isThere(known))) return known;
    const shared = loading.get(digest);
    if (shared) return shared;
    const loaded = load(ref, digest).finally(() => loading.delete(digest));
    loading.set(digest, loaded);
    return loaded;
  }

  async function load(ref: ImageRef, digest: Digest): Promise<string> {
    const archive = await archives.open(ref);
    try {
      const { id } = archive;
      const tag = `${repository}:${digest.replace("sha256:", "")}`;
      if (!(await isThere(id, tag))) {
        await engine.send("POST", enginePath("/images/load", { quiet: 1 }), {
          archive: archive.read(tag),
          timeoutMs: LOAD_TIMEOUT_MS,
        });
        if (!(await isThere(id))) {
          throw new Failure("unavailable", `the engine took ${digest} and does not have it`);
        }
      }
      ids.set(digest, id);
      return id;
    } finally {
      archive.close();
    }
  }

  async function isThere(id: string, tag?: string): Promise<boolean> {
    const found = await engine.find(`/images/${encodeURIComponent(id)}/json`, Found);
    return found !== undefined && (tag === undefined || (found.RepoTags ?? []).includes(tag));
  }
}
