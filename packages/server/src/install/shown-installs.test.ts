import assert from "node:assert/strict";
import { test } from "node:test";
import { forgetInstall, getInstall, listInstalls } from "@exclave/api";
import { InstallId, InstallName } from "@exclave/core";
import { installRow } from "../testing/rows.ts";
import { type TestServer, testServer, until } from "../testing/test-server.ts";

const COUNT = 120;

test("a list of installs plans none of them, and says when each was decided", async (t) => {
  const server = await testServer(t);
  await putInstalls(server, COUNT);
  const { read } = server.server.context.store;
  await until(
    () => read.shownInstalls.list({ limit: 200 }),
    ({ items }) => items.length === COUNT,
    "all were decided",
  );
  const planned = [
    t.mock.method(read.components, "ofInstall"),
    t.mock.method(read.jobs, "openOfInstall"),
  ];

  const { items, next } = await server.client.call(listInstalls, { query: { limit: "100" } });

  assert.deepEqual([items.length, next === null], [100, false]);
  assert.ok(items.every(({ asOf }) => typeof asOf === "string"));
  assert.ok(
    items.every(({ holds }) => holds.length > 0),
    "they wait for a release",
  );
  assert.deepEqual(
    planned.map(({ mock }) => mock.callCount()),
    [0, 0],
  );
  await server.client.call(getInstall, { params: { install: items[0]?.id ?? "" } });
  assert.ok(
    planned.every(({ mock }) => mock.callCount() > 0),
    "one that is shown is planned",
  );
});

test("an install the loop has not come to is listed by its row, and said to be undecided", async (t) => {
  const server = await testServer(t);
  const install = numbered(1);
  await server.server.context.store.transaction((tx) => tx.installs.put(install));

  const { items } = await server.client.call(listInstalls, { query: {} });

  assert.deepEqual(
    items.map(({ id, phase, asOf }) => [id, phase, asOf]),
    [[install.id, "setting-up", null]],
  );
});

test("what was shown of an install is forgotten with it", async (t) => {
  const server = await testServer(t);
  await putInstalls(server, 2);
  const { read } = server.server.context.store;
  await until(
    () => read.shownInstalls.list({ limit: 10 }),
    ({ items }) => items.length === 2,
    "both were decided",
  );

  const { id } = numbered(0);
  await server.client.call(forgetInstall, { params: { install: id }, query: { force: "true" } });
  await server.server.context.shown.stop();

  const { items } = await read.shownInstalls.list({ limit: 10 });
  assert.deepEqual(
    items.map(({ install }) => install),
    [numbered(1).id],
  );
});

async function putInstalls({ server }: TestServer, count: number): Promise<void> {
  const { store, wake } = server.context;
  await store.transaction(async (tx) => {
    for (let n = 0; n < count; n++) await tx.installs.put(numbered(n));
  });
  wake.allInstalls();
}

function numbered(n: number) {
  const letters = String(n).replaceAll(/\d/g, (digit) => "abcdefghij"[+digit]!);
  return installRow({
    id: InstallId.parse(`i${letters.padStart(16, "a")}`),
    name: InstallName.parse(`customer-${n}`),
  });
}
