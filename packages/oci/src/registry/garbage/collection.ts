// Collects a registry's garbage from time to time.

import type { RegistryFiles } from "../files/registry-files.ts";
import type { Uploads } from "../upload/uploads.ts";
import { collectFrom, GRACE_MS } from "./collect-garbage.ts";

export interface Collection {
  /** Begins no further one. */
  stop(): void;
  /** Resolves when none is under way. */
  done(): Promise<void>;
}

export interface CollectionOptions {
  readonly files: RegistryFiles;
  readonly uploads: Pick<Uploads, "dropIdle">;
  readonly everyMs?: number;
  /** How long what nothing needs is left alone. */
  readonly graceMs?: number;
  readonly now: () => number;
  readonly onError: (reason: unknown) => void;
}

const EVERY_MS = 6 * 60 * 60 * 1_000;

export function startCollection(options: CollectionOptions): Collection {
  const { files, uploads, everyMs = EVERY_MS, graceMs = GRACE_MS, now, onError } = options;
  let collecting: Promise<void> | undefined;
  const timer = setInterval(() => {
    collecting ??= collect();
  }, everyMs);
  timer.unref();

  return {
    stop: () => clearInterval(timer),
    done: async () => collecting,
  };

  async function collect(): Promise<void> {
    try {
      await uploads.dropIdle();
      await collectFrom(files, { now: now(), graceMs });
    } catch (reason) {
      onError(reason);
    } finally {
      collecting = undefined;
    }
  }
}
