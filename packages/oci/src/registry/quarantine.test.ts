import assert from "node:assert/strict";
import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { Digest } from "@exclave/core";
import { openRegistry } from "./testing/open-registry.ts";

const fileOf = (directory: string, digest: Digest) =>
  join(directory, "blobs", ...(digest.split(":") as [string, string]));

test("a manifest whose blob was damaged on disk is gone after a doubt, and so is the blob everywhere", async (t) => {
  const { directory, send, push, putManifest } = await openRegistry(t);
  const layer = await push("app", "the layer");
  await push("other", "the layer");
  const layers = [{ mediaType: "text/plain", digest: layer, size: 9 }];
  const { digest } = await putManifest("app", "v1", { layers });
  const whole = await putManifest("app", "v2", {});
  await writeFile(fileOf(directory, layer), "the lawyer");

  const before = await send("HEAD", `/v2/app/manifests/${digest}`);
  const doubted = await send("HEAD", `/v2/app/manifests/${digest}?verify=true`);

  assert.deepEqual([before.status, doubted.status], [200, 404]);
  assert.equal((await send("HEAD", `/v2/app/manifests/${digest}`)).status, 404);
  assert.equal((await send("HEAD", `/v2/app/manifests/v1`)).status, 404);
  assert.equal((await send("HEAD", `/v2/other/blobs/${layer}`)).status, 404);
  assert.equal((await readdir(join(directory, "damaged"))).length, 1);
  assert.equal((await send("HEAD", `/v2/app/manifests/${whole.digest}?verify=true`)).status, 200);

  await push("app", "the layer");
  const again = await putManifest("app", "v1", { layers });
  assert.equal(again.digest, digest);
  assert.equal((await send("HEAD", `/v2/app/manifests/${digest}?verify=true`)).status, 200);
});

test("a blob that is gone from the disk takes its manifest along when it is doubted", async (t) => {
  const { directory, send, push, putManifest } = await openRegistry(t);
  const layer = await push("app", "the layer");
  const layers = [{ mediaType: "text/plain", digest: layer, size: 9 }];
  const { digest } = await putManifest("app", "v1", { layers });
  const index = await putManifest("app", "index", {
    manifests: [{ mediaType: "application/vnd.oci.image.manifest.v1+json", digest, size: 1 }],
  });
  await rm(fileOf(directory, layer));

  const doubted = await send("HEAD", `/v2/app/manifests/${index.digest}?verify=true`);

  assert.equal(doubted.status, 404);
  assert.equal((await send("HEAD", `/v2/app/manifests/${digest}`)).status, 404);
});

test("a damaged manifest is never served", async (t) => {
  const { directory, send, putManifest } = await openRegistry(t);
  const { digest, body } = await putManifest("app", "v1", {});
  await writeFile(fileOf(directory, digest), body.replace("2", "3"));

  const read = await send("GET", `/v2/app/manifests/${digest}`);

  assert.equal(read.status, 404);
  assert.equal((await send("HEAD", `/v2/app/manifests/v1`)).status, 404);
});
