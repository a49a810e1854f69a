// Brings a build's source: uploaded by the vendor, named by digest. Nothing of it is unpacked before
// all of it has been checked.

import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Failure, type JobDocument } from "@exclave/core";
import { createServerFetch } from "@exclave/machine";
import { MEDIA_TYPES, unpackLayer, verified } from "@exclave/oci";

export interface FetchSourceOptions {
  readonly source: NonNullable<JobDocument["source"]>;
  /** Where the source tree goes. */
  readonly directory: string;
  readonly workDirectory: string;
  readonly signal: AbortSignal;
}

export async function fetchSource(options: FetchSourceOptions): Promise<void> {
  const { source, directory, workDirectory, signal } = options;
  const archive = join(workDirectory, "source.tar");
  await mkdir(directory, { recursive: true });

  // Its token is for this address and no other: no redirect is followed.
  const ask = createServerFetch({ ca: source.ca });
  const headers = { authorization: `Bearer ${source.token}` };
  const response = await ask(source.url, { headers, signal }).catch((cause) => {
    throw new Failure("unavailable", "cannot reach the server for the source", { cause });
  });
  if (!response.ok || !response.body) {
    const code = response.status === 404 ? "not_found" : "unavailable";
    throw new Failure(code, `the server answered ${response.status} for the source`);
  }
  const bytes = verified(Readable.fromWeb(response.body), { digest: source.digest });
  await pipeline(bytes, createWriteStream(archive, { mode: 0o600 }), { signal });
  await unpackLayer(createReadStream(archive), MEDIA_TYPES.layerTar, directory);
  await rm(archive);
}
