import assert from "node:assert/strict";
import { mkdir, readdir, rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { createInstall, createToken, listInstalls } from "@exclave/api";
import { deployedWorld } from "../testing/deployed-world.ts";
import { failsWith } from "../testing/describe-signer.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { assertOnRecord, type TestServer, testServer } from "../testing/test-server.ts";
import { backUpServer, restoreServer } from "./backup-server.ts";

const tokenNames = async ({ server }: TestServer) =>
  (await server.context.store.read.tokens.all()).map(({ name }) => name).sort();

test("a server that is copied while it works is that server again, as it was then", async (t) => {
  const { server } = await deployedWorld(t);
  const place = await temporaryDirectory(t);
  const [copy, data] = [join(place, "copy"), join(place, "restored")];
  const copied = new AbortController();
  const writing = (async () => {
    for (let n = 0; !copied.signal.aborted; n++) {
      await server.client.call(createToken, { body: { name: `t${n}`, role: "viewer" } });
    }
  })();

  const { files, hasDatabase } = await backUpServer(server.data, copy);
  copied.abort();
  await writing;

  assert.ok(files > 10);
  assert.equal(hasDatabase, true);
  const after = await tokenNames(server);
  await server.stop();
  await restoreServer(copy, data);
  const again = await testServer(t, { data });
  const kept = await tokenNames(again);
  assert.deepEqual(
    kept.filter((name) => !after.includes(name)),
    [],
  );
  const { items } = await again.client.call(listInstalls);
  assert.deepEqual(
    items.map(({ name }) => name),
    ["acme"],
  );
  await assertOnRecord(again, "release.ready", "install.created", "job.ended");
});

test("what is made afterwards is not in it, and the restored server works", async (t) => {
  const { server } = await deployedWorld(t);
  const place = await temporaryDirectory(t);
  const [copy, data] = [join(place, "copy"), join(place, "restored")];
  await backUpServer(server.data, copy);
  await server.client.call(createToken, { body: { name: "late", role: "viewer" } });
  await server.stop();

  await restoreServer(copy, data);

  const again = await testServer(t, { data });
  assert.deepEqual(await tokenNames(again), ["admin"]);
  await again.client.call(createToken, { body: { name: "new", role: "viewer" } });
  const view = await again.client.call(createInstall, {
    body: { name: "globex", app: "crm", inputs: { title: "Globex" } },
  });
  assert.equal(view.name, "globex");
});

test("a copy holds keys and is for its owner alone; locks and drafts are not in it", async (t) => {
  const server = await testServer(t);
  await writeFile(join(server.data, "keys", ":draft"), "half");
  // A vendor may call a component so, and then a repository is.
  await mkdir(join(server.data, "registry", "repositories", "apps", "tmp"), { recursive: true });
  await writeFile(join(server.data, "registry", "repositories", "apps", "tmp", "lock"), "content");
  await mkdir(join(server.data, "registry", "tmp"), { recursive: true });
  await writeFile(join(server.data, "registry", "tmp", "upload"), "under way");
  const copy = join(await temporaryDirectory(t), "deep", "copy");

  await backUpServer(server.data, copy);

  assert.equal((await stat(copy)).mode & 0o077, 0);
  const names = await readdir(copy, { recursive: true });
  assert.ok(names.includes("exclave.db") && names.some((name) => name.startsWith("keys/")));
  assert.deepEqual(
    names.filter((name) => /lock$|-wal$|-shm$|:draft|\.draft|upload$/.test(name)),
    ["registry/repositories/apps/tmp/lock"],
  );
});

test("nothing is written over, and what is no backup is not taken for one", async (t) => {
  const server = await testServer(t);
  const place = await temporaryDirectory(t);
  const copy = join(place, "copy");
  await backUpServer(server.data, copy);

  await failsWith("conflict", backUpServer(server.data, copy));
  await failsWith("invalid", backUpServer(server.data, join(server.data, "inside")));
  await failsWith("not_found", backUpServer(join(place, "nowhere"), join(place, "other")));
  await failsWith("conflict", restoreServer(copy, server.data));
  await mkdir(join(place, "empty"));
  await failsWith("not_found", restoreServer(join(place, "empty"), join(place, "new")));
  await truncate(join(copy, "exclave.db"), 5_000);
  await failsWith("conflict", restoreServer(copy, join(place, "new")));
  await rm(join(copy, "exclave.db"));
  await failsWith("conflict", restoreServer(copy, join(place, "new")));
  assert.deepEqual((await readdir(place)).sort(), ["copy", "empty"]);
});

test("a copy that was cut off is made anew", async (t) => {
  const server = await testServer(t);
  const place = await temporaryDirectory(t);
  await mkdir(join(place, "copy.draft"));
  await writeFile(join(place, "copy.draft", "exclave.db"), "half of one");

  await backUpServer(server.data, join(place, "copy"));

  await restoreServer(join(place, "copy"), join(place, "restored"));
});
