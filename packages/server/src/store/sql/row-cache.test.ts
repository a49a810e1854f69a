import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { agentRow } from "../../testing/rows.ts";
import { temporaryDirectory } from "../../testing/temporary-directory.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { createRowCache } from "./row-cache.ts";

test("a row is known again by its text alone", () => {
  const cache = createRowCache();
  const row = { name: "acme" };
  cache.keep("installs 1", '{"name":"acme"}', row);

  assert.equal(cache.get("installs 1", '{"name":"acme"}'), row);
  assert.equal(cache.get("installs 1", '{"name":"other"}'), undefined);
  assert.equal(cache.get("installs 2", '{"name":"acme"}'), undefined);
});

test("nobody can change a row that others hold, nor a part of it", () => {
  const cache = createRowCache();
  const row = { inputs: { domain: "example.test" }, synced: ["a"] };
  cache.keep("installs 1", "text", row);

  assert.throws(() => row.synced.push("b"), TypeError);
  assert.throws(() => Object.assign(row.inputs, { domain: "other" }), TypeError);
});

test("what was not used for the longest is dropped when there is too much", () => {
  const cache = createRowCache(10);
  for (const key of ["a", "b"]) cache.keep(key, "12345", { key });
  cache.get("a", "12345");

  cache.keep("c", "12345", { key: "c" });

  assert.deepEqual(
    ["a", "b", "c"].map((key) => cache.get(key, "12345") !== undefined),
    [true, false, true],
  );
});

test("what another process wrote is read, and what was rolled back is not", async (t) => {
  const file = join(await temporaryDirectory(t), "exclave.db");
  const [store, other] = [openSqliteStore(file), openSqliteStore(file)];
  t.after(() => Promise.all([store.close(), other.close()]));
  const agent = agentRow({ version: "1" });
  await store.transaction((tx) => tx.agents.put(agent));

  await other.transaction((tx) => tx.agents.put({ ...agent, version: "2" }));
  const undone = store.transaction(async (tx) => {
    await tx.agents.put({ ...agent, version: "3" });
    throw new Error("undone");
  });

  await assert.rejects(undone, /undone/);
  assert.equal((await store.read.agents.get(agent.id))?.version, "2");
});

test("a transaction sees what others wrote before it, and not what was undone", async (t) => {
  const file = join(await temporaryDirectory(t), "exclave.db");
  const [store, other] = [openSqliteStore(file), openSqliteStore(file)];
  t.after(() => Promise.all([store.close(), other.close()]));
  const agent = agentRow({ version: "1" });
  const seen = () => store.transaction(async (tx) => (await tx.agents.get(agent.id))?.version);
  await store.transaction((tx) => tx.agents.put(agent));
  const first = await seen();

  await other.transaction((tx) => tx.agents.put({ ...agent, version: "2" }));
  const second = await seen();
  const undone = store.transaction(async (tx) => {
    await tx.agents.put({ ...agent, version: "3" });
    throw new Error("undone");
  });
  const beside = seen();

  await assert.rejects(undone, /undone/);
  assert.deepEqual([first, second, await beside], ["1", "2", "2"]);
});

test("a row that a transaction took away is gone for the next", async (t) => {
  const store = openSqliteStore(join(await temporaryDirectory(t), "exclave.db"));
  t.after(() => store.close());
  const agent = agentRow({});
  await store.transaction((tx) => tx.agents.put(agent));

  const removed = await store.transaction((tx) => tx.agents.remove(agent.id));

  assert.equal(removed, true);
  assert.equal(await store.transaction((tx) => tx.agents.get(agent.id)), undefined);
});
