import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeFileDurably } from "../../content/blob-files.ts";
import { type Descriptor, MEDIA_TYPES } from "../../content/descriptor.ts";
import { digestOf } from "../../content/digest.ts";
import { describeContentStore } from "../../content/testing/content-store.ts";
import { temporaryDirectory } from "../../testing/temporary-directory.ts";
import { createReach } from "../reach.ts";
import { createRegistryFiles } from "./registry-files.ts";

describeContentStore("the registry's files", async (t) =>
  createRegistryFiles(await temporaryDirectory(t)),
);

test("referrers are read as they are asked for, from the one after the last", async (t) => {
  const directory = await temporaryDirectory(t);
  const files = createRegistryFiles(directory);
  const subject = digestOf("subject");
  const place = join(directory, "repositories/a/+referrers", subject.replace(":", "-"));
  const digests = Array.from({ length: 100 }, (_, at) => digestOf(`referrer ${at}`)).sort();
  for (const digest of digests) {
    const entry: Descriptor = { mediaType: MEDIA_TYPES.manifest, digest, size: 1 };
    await writeFileDurably(join(place, digest.replace(":", "-")), JSON.stringify(entry));
  }
  const last = digests[39] ?? "";
  const seen: string[] = [];

  for await (const { digest } of files.listReferrers("a", subject, { last })) {
    // Whatever is not read yet is gone: few of them were read ahead.
    if (seen.push(digest) === 1) await rm(place, { recursive: true });
  }

  assert.deepEqual(seen, digests.slice(40, 56));
});

test("a manifest holds what it held as what it was taken in", async (t) => {
  const directory = await temporaryDirectory(t);
  const files = createRegistryFiles(directory);
  const layer = { mediaType: MEDIA_TYPES.layerTar, digest: digestOf("layer"), size: 5 };
  // Not taken in any more, but it was.
  const fields = { schemaVersion: 2, config: layer, layers: [layer], manifests: [] };
  const bytes = Buffer.from(JSON.stringify(fields));
  const digest = digestOf(bytes);
  await files.blobs.write({ digest }, () => new Blob([bytes]).stream());
  const link = join(directory, "repositories/a/+manifests", digest.replace(":", "-"));
  await writeFileDurably(link, JSON.stringify({ mediaType: MEDIA_TYPES.manifest }));

  assert.ok(await createReach(files).holds([digest], layer.digest, "a"));
});
