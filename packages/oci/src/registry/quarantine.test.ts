import assert from "node:assert/strict";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
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

test("a blob that is damaged right after it was verified is found by the next doubt", async (t) => {
  const { directory, send, push, putManifest } = await openRegistry(t);
  const layer = await push("app", "the layer");
  const layers = [{ mediaType: "text/plain", digest: layer, size: 9 }];
  const { digest } = await putManifest("app", "v1", { layers });
  const doubt = async () => (await send("HEAD", `/v2/app/manifests/${digest}?verify=true`)).status;

  const before = await doubt();
  await writeFile(fileOf(directory, layer), "the lager");

  assert.deepEqual([before, await doubt()], [200, 404]);
});

test("a damaged manifest is never served", async (t) => {
  const { directory, send, putManifest } = await openRegistry(t);
  const { digest, body } = await putManifest("app", "v1", {});
  await writeFile(fileOf(directory, digest), body.replace("2", "3"));

  const read = await send("GET", `/v2/app/manifests/${digest}`);

  assert.equal(read.status, 404);
  assert.equal((await send("HEAD", `/v2/app/manifests/v1`)).status, 404);
});

test("a damaged link to a manifest is as good as none, and the next push mends it", async (t) => {
  const { directory, send, putManifest } = await openRegistry(t);
  const { digest } = await putManifest("app", "v1", {});
  const [link = ""] = await readdir(join(directory, "repositories/app/+manifests"));
  const file = join(directory, "repositories/app/+manifests", link);
  const whole = await readFile(file, "utf8");

  for (const damaged of [whole.replace("{", "["), whole.replace("image", "imbge"), ""]) {
    await writeFile(file, damaged);

    const heads = ["v1", digest, `${digest}?verify=true`].map((one) =>
      send("HEAD", `/v2/app/manifests/${one}`),
    );

    assert.deepEqual(
      (await Promise.all(heads)).map(({ status }) => status),
      [404, 404, 404],
      damaged,
    );
    await putManifest("app", "v1", {});
    assert.equal((await send("HEAD", `/v2/app/manifests/${digest}?verify=true`)).status, 200);
  }
});

test("a damaged tag is as good as none, and the next push mends it", async (t) => {
  const { directory, send, putManifest } = await openRegistry(t);
  const { digest } = await putManifest("app", "v1", {});
  await writeFile(join(directory, "repositories/app/+tags/v1"), digest.replace(":", "/"));

  const read = await send("GET", "/v2/app/manifests/v1");

  assert.equal(read.status, 404);
  assert.equal((await send("HEAD", `/v2/app/manifests/${digest}`)).status, 200);
  await putManifest("app", "v1", {});
  assert.equal((await send("HEAD", "/v2/app/manifests/v1")).status, 200);
});

test("a damaged entry of a list of referrers is made anew from the manifest it is about", async (t) => {
  const { directory, send, putManifest } = await openRegistry(t);
  const subject = await putManifest("app", "v1", {});
  const size = subject.body.length;
  const about = {
    mediaType: "application/vnd.oci.image.manifest.v1+json",
    digest: subject.digest,
    size,
  };
  const referrer = await putManifest("app", "note", { subject: about, artifactType: "text/note" });
  const place = join(directory, "repositories/app/+referrers", subject.digest.replace(":", "-"));
  const file = join(place, referrer.digest.replace(":", "-"));
  const whole = await readFile(file, "utf8");
  const list = async () => (await send("GET", `/v2/app/referrers/${subject.digest}`)).json();
  const before = await list();

  for (const damaged of [whole.replace("{", "["), whole.replace(/[0-9a-f]{8}/, "00000000"), ""]) {
    await writeFile(file, damaged);

    assert.deepEqual(await list(), before);
    assert.equal(await readFile(file, "utf8"), whole);
  }

  await writeFile(file, "");
  await writeFile(fileOf(directory, referrer.digest), "damaged too");
  assert.deepEqual(await list(), { ...(before as object), manifests: [] });
});
