// An OCI layout as one tar file: what is carried across an air gap. The same content gives the same
// bytes.

import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { readdir, rename, rm, stat } from "node:fs/promises";
import { join, posix } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Failure } from "@exclave/core";
import { diskFailure } from "@exclave/machine";
import { type TarEntry, writeTar } from "../layer/tar-writer.ts";
import { unpackLayer } from "../layer/unpack.ts";
import { MEDIA_TYPES } from "./descriptor.ts";

export async function writeLayoutArchive(
  directory: string,
  file: string,
  signal?: AbortSignal,
): Promise<void> {
  const temporary = `${file}.partial`;
  try {
    const archive = Readable.from(writeTar(entriesOf(directory)), { objectMode: false });
    const written = createWriteStream(temporary, { flush: true });
    // Open before anything can break, or it would be made after it was removed.
    await once(written, "open");
    await pipeline(archive, written, signal ? { signal } : {});
    await rename(temporary, file);
  } catch (reason) {
    await rm(temporary, { force: true });
    throw diskFailure(reason);
  }
}

export async function readLayoutArchive(
  file: string,
  directory: string,
  signal?: AbortSignal,
): Promise<void> {
  const info = await stat(file).catch((cause: unknown) => {
    throw new Failure("not_found", `there is no file ${file}`, { cause });
  });
  // Nothing in the archive is compressed, so what comes out cannot be more than went in.
  const options = { bytesMax: info.size, signal };
  try {
    await unpackLayer(createReadStream(file), MEDIA_TYPES.layerTar, directory, options);
  } catch (reason) {
    throw diskFailure(reason);
  }
}

/** `oci-layout` and `index.json` first, so that a reader knows what it has before the blobs come. */
async function* entriesOf(directory: string): AsyncIterable<TarEntry> {
  for (const name of ["oci-layout", "index.json"]) yield await fileEntry(directory, name);
  const folders = ["blobs"];
  for (const folder of folders) {
    yield { type: "directory", path: folder, mode: 0o755 };
    const children = await readdir(join(directory, folder), { withFileTypes: true });
    children.sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const child of children) {
      const path = posix.join(folder, child.name);
      if (child.isDirectory()) folders.push(path);
      else if (child.isFile()) yield await fileEntry(directory, path);
    }
  }
}

async function fileEntry(directory: string, path: string): Promise<TarEntry> {
  const { size } = await stat(join(directory, path));
  const open = () => createReadStream(join(directory, path), { highWaterMark: 1024 * 1024 });
  return { type: "file", path, mode: 0o644, size, open };
}
