import assert from "node:assert/strict";
import { chmod, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Failure } from "@exclave/plugin-sdk";
import { createTestContext } from "@exclave/plugin-sdk/testing";
import { plugin } from "./plugin.ts";

const DIGEST = { a: `sha256:${"a".repeat(64)}`, b: `sha256:${"b".repeat(64)}` };
const DESCRIPTOR = {
  version: 1,
  type: "greeting",
  operations: { apply: { effect: "idempotent" } },
  configSchema: { type: "object" },
  outputs: {},
};

async function source(t: TestContext, files: Record<string, string>, config = {}) {
  const context = await createTestContext(plugin, { config });
  t.after(() => rm(context.directory, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files))
    await writeFile(join(context.files, name), text);
  return context;
}

function layout(entries: Record<string, string>) {
  const manifests = Object.entries(entries).map(([name, digest]) => ({
    digest,
    annotations: { "org.opencontainers.image.ref.name": name },
  }));
  return { "oci-layout": "{}", "index.json": JSON.stringify({ manifests }) };
}

test("the one image of a layout is taken as it is", async (t) => {
  const context = await source(t, layout({ latest: DIGEST.a }));

  const { build } = await context.run("build");

  assert.deepEqual(build, { kind: "layout", directory: context.files, digest: DIGEST.a });
});

test("of several images the one that is referred to is taken", async (t) => {
  const context = await source(t, layout({ one: DIGEST.a, two: DIGEST.b }));
  const built = async (reference: string) => {
    const { build } = await context.run("build", { config: { reference } });
    return build?.kind === "layout" && build.digest;
  };

  assert.equal(await built("two"), DIGEST.b);
  assert.equal(await built(DIGEST.a), DIGEST.a);
  await assert.rejects(built("three"), /no single image "three"; it holds one, two/);
  await assert.rejects(context.run("build"), /say by `reference`.* the layout holds one, two/);
});

test("a vendor's plugin becomes an image on top of the runner, with its descriptor", async (t) => {
  const plugin = { ...DESCRIPTOR, run: ["./plugin.sh", "now"] };
  const context = await source(t, {
    "plugin.json": JSON.stringify(plugin),
    "plugin.sh": "#!/bin/sh\n",
  });
  await chmod(join(context.files, "plugin.sh"), 0o755);

  const { build } = await context.run("build");

  assert.ok(build?.kind === "image");
  assert.equal(build.prefix, "/exclave");
  assert.equal(build.base, "base");
  const published = JSON.parse(build.annotations?.["dev.exclave.plugin.v1"] ?? "");
  assert.equal(published.type, "greeting");
  assert.equal("run" in published, false);
});

test("a plugin whose program cannot be run is refused at build", async (t) => {
  const plugin = { ...DESCRIPTOR, run: ["./plugin.sh"] };
  const context = await source(t, { "plugin.json": JSON.stringify(plugin), "plugin.sh": "" });

  await assert.rejects(context.run("build"), /runs .\/plugin.sh, which is not an executable file/);
});

test("a bundled plugin needs no program beside it", async (t) => {
  const files = { "plugin.json": JSON.stringify(DESCRIPTOR), "plugin.mjs": "export {};" };
  const context = await source(t, files);

  const { build } = await context.run("build");

  assert.ok(build?.kind === "image");
  assert.match(build.annotations?.["dev.exclave.plugin.v1"] ?? "", /"type":"greeting"/);
});

test("a plugin.json with mistakes is refused with all of them", async (t) => {
  const wrong = { ...DESCRIPTOR, type: "Not A Name", outputs: 3 };
  const context = await source(t, { "plugin.json": JSON.stringify(wrong) });

  await assert.rejects(context.run("build"), /type: .*outputs: .*run: /);
});

test("a directory with an entrypoint becomes an image from nothing", async (t) => {
  const context = await source(t, { server: "" }, { entrypoint: ["/app/server"], prefix: "/app" });

  const { build } = await context.run("build");

  assert.ok(build?.kind === "image");
  assert.equal(build.base, undefined);
  assert.deepEqual(build.config, { entrypoint: ["/app/server"] });
});

test("a source that is none of these is refused", async (t) => {
  const context = await source(t, { "README.md": "" });

  await assert.rejects(context.run("build"), /neither an OCI image layout nor a plugin/);
});

test("apply names the image as it lies in the install's registry", async (t) => {
  const context = await source(t, {});
  const artifact = { repository: "apps/shop/web", digest: DIGEST.a, present: true };

  const { outputs } = await context.run("apply", {
    artifact,
    registryUrl: "http://127.0.0.1:5000",
  });

  assert.deepEqual(outputs, {
    image: `127.0.0.1:5000/apps/shop/web@${DIGEST.a}`,
    digest: DIGEST.a,
  });
});

test("an image that is not in the install is not applied, and is missing", async (t) => {
  const context = await source(t, {});
  const artifact = { repository: "apps/shop/web", digest: DIGEST.a, present: false };

  await assert.rejects(
    context.run("apply", { artifact }),
    (reason: Failure) => reason.code === "not_synced",
  );
  assert.equal((await context.run("status", { artifact })).status?.health, "missing");
});
