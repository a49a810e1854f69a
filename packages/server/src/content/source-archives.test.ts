import { readdir } from "node:fs/promises";
import { createMemoryObjectStore, createS3ObjectStore } from "@exclave/oci/objects";
import { startFakeS3 } from "@exclave/oci/testing/objects";
import { describeSourceArchives } from "../testing/describe-source-archives.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createObjectSources } from "./object-sources.ts";
import { createSourceFiles } from "./source-archives.ts";

describeSourceArchives("sources in files", async (t) => {
  const directory = await temporaryDirectory(t);
  return {
    sources: createSourceFiles(directory),
    leftBehind: async () => (await readdir(directory)).length,
  };
});

describeSourceArchives("sources in objects in memory", async () => {
  const objects = createMemoryObjectStore();
  return {
    sources: createObjectSources(objects),
    leftBehind: () => objects.abortUploads("", Date.now() + 1_000),
  };
});

describeSourceArchives("sources in S3", async (t) => {
  const fake = await startFakeS3();
  const store = createS3ObjectStore({ settings: fake.settings });
  t.after(async () => {
    store.close();
    await fake.close();
  });
  return {
    sources: createObjectSources(store),
    leftBehind: async () => (await store.abortUploads("", Date.now() + 60_000)) + fake.objects.size,
  };
});
