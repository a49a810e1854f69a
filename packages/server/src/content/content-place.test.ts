import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { checkContentPlace } from "./content-place.ts";

const BUCKET = "s3://vendor-bucket/content";
const empty = async () => false;
const full = async () => true;

test("a server's content stays where it was first put", async (t) => {
  const directory = await temporaryDirectory(t);
  await checkContentPlace(directory, { objects: BUCKET, hasFiles: empty });
  await checkContentPlace(directory, { objects: BUCKET, hasFiles: empty });

  await assert.rejects(
    checkContentPlace(directory, { objects: undefined, hasFiles: empty }),
    /content is in s3:\/\/vendor-bucket\/content, and it was started for files in its directory/,
  );
  await assert.rejects(
    checkContentPlace(directory, { objects: "s3://other/", hasFiles: empty }),
    /started for s3:\/\/other\//,
  );
});

test("a server from before there was a choice has its content in files", async (t) => {
  const directory = await temporaryDirectory(t);

  await assert.rejects(
    checkContentPlace(directory, { objects: BUCKET, hasFiles: full }),
    /content is in files in its directory/,
  );
  await checkContentPlace(directory, { objects: undefined, hasFiles: full });
});

test("a damaged note stops the start", async (t) => {
  const directory = await temporaryDirectory(t);
  await writeFile(join(directory, "content-place.json"), "{");

  await assert.rejects(
    checkContentPlace(directory, { objects: BUCKET, hasFiles: empty }),
    /is damaged/,
  );
});
