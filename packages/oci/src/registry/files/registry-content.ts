// The bytes a registry keeps, under their digests: in a directory.

import { mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { dirname, join } from "node:path";
import type { Digest } from "@exclave/core";
import { renameMaking, syncDirectory, unlessAbsent } from "@exclave/machine";
import { type BlobFiles, createBlobFiles, readFileIfThere } from "../../content/blob-files.ts";
import { sendFile } from "../send-file.ts";

export interface RegistryContent extends Pick<BlobFiles, "size" | "write" | "temporary" | "sweep"> {
  read(digest: Digest, range?: ByteRange): AsyncIterable<Uint8Array>;
  /** All of it, in memory; undefined where there is none. */
  readWhole(digest: Digest): Promise<Buffer | undefined>;
  /** As the body of an answer whose head was written. */
  send(response: ServerResponse, digest: Digest, range: Required<ByteRange>): Promise<void>;
  /** Takes over a synced file with these bytes; `link` says who has them. All is durable when it returns. */
  keep(file: string, digest: Digest, link: () => Promise<void>): Promise<void>;
  /** Whether it is there and stays: for whoever has said durably that they build on it. */
  isThere(digest: Digest): Promise<boolean>;
  /** Another text once the bytes under the digest may be others; undefined where there are none. */
  stamp(digest: Digest): Promise<string | undefined>;
  /** No longer serves what was found not to have its digest. */
  isolate(digest: Digest, now: number): Promise<void>;
}

interface ByteRange {
  /** First and last byte, both counted. */
  readonly from?: number;
  readonly to?: number;
}

/** Content in files has a place that can be looked at. */
export type FileContent = RegistryContent & BlobFiles;

const DAMAGED_KEPT_MAX = 20;

export function createFileContent(directory: string): FileContent {
  const blobs = createBlobFiles(directory);

  return {
    ...blobs,
    readWhole: (digest) => readFileIfThere(blobs.path(digest)),

    send: (response, digest, { from, to }) =>
      sendFile(response, { path: blobs.path(digest), from, to }),

    async keep(file, digest, link) {
      const place = blobs.path(digest);
      await renameMaking(file, place);
      // Seen only when both are there, so neither has to wait for the other.
      await Promise.all([syncDirectory(dirname(place)), link()]);
    },

    isThere: async (digest) => (await blobs.size(digest)) !== undefined,

    async stamp(digest) {
      const seen = await unlessAbsent(stat(blobs.path(digest), { bigint: true }));
      return seen && [seen.ino, seen.size, seen.mtimeNs, seen.ctimeNs].join(" ");
    },

    async isolate(digest, now) {
      const aside = join(directory, "damaged");
      await mkdir(aside, { recursive: true, mode: 0o700 });
      const kept = ((await unlessAbsent(readdir(aside))) ?? []).sort();
      for (const old of kept.slice(0, Math.max(0, kept.length - DAMAGED_KEPT_MAX + 1))) {
        await rm(join(aside, old), { force: true });
      }
      const name = `${now}-${digest.replace(":", "-")}`;
      await unlessAbsent(rename(blobs.path(digest), join(aside, name)));
    },
  };
}
