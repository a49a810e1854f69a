import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { pino } from "pino";
import { openPostgresStore } from "../store/postgres/postgres-store.ts";
import { describePeers } from "../testing/describe-peers.ts";
import { findPostgres, startPostgres } from "../testing/postgres-cluster.ts";
import { until } from "../testing/test-server.ts";
import type { Notice } from "./notice.ts";
import type { Peers } from "./peers.ts";
import { openPostgresPeers } from "./postgres-peers.ts";

const programs = findPostgres();
if (!programs) {
  test("servers that share a PostgreSQL database", { skip: "no postgres on this machine" });
} else {
  const cluster = await startPostgres(programs);
  process.on("exit", () => cluster.process.kill("SIGQUIT"));
  test.after(() => cluster.stop());
  const log = pino({ level: "silent" });
  const label = { version: "1", directory: "one", publicUrl: "https://exclave.example" };
  const prepared = async () => {
    const url = await cluster.create();
    await (await openPostgresStore(url)).close();
    return { url, database: new URL(url).pathname.slice(1) };
  };
  const open = (url: string, changes: Partial<typeof label> = {}) =>
    openPostgresPeers({ url, label: { ...label, ...changes }, log });
  const opened = async (t: TestContext, url: string) => {
    const peers = await open(url);
    t.after(() => peers.close());
    const told: Notice[] = [];
    const counts = { unsure: 0, renamed: 0 };
    peers.listen({
      onNotice: (notice) => void told.push(notice),
      onUnsure: () => void counts.unsure++,
      onRenamed: () => void counts.renamed++,
    });
    return { peers, told, counts };
  };
  const together = (...all: readonly { readonly peers: Peers }[]) =>
    until(
      async () => all.map(({ peers }) => peers.servers().length),
      (counts) => counts.every((count) => count === all.length),
      "all are there",
    );

  describePeers("postgres", async () => {
    const { url } = await prepared();
    return () => open(url);
  });

  test("a listening connection that is cut is made again, and both sides look at everything", async (t) => {
    const { url, database } = await prepared();
    const a = await opened(t, url);
    const b = await opened(t, url);
    await together(a, b);
    const before = { a: a.counts.unsure, b: b.counts.unsure };

    const cut = `SELECT pg_terminate_backend(backend) FROM servers WHERE id = '${a.peers.self()}'`;
    await cluster.run(cut, database);

    await until(
      async () => a.counts.unsure,
      (count) => count > before.a,
      "the one that was cut",
    );
    await until(
      async () => b.counts.unsure,
      (count) => count > before.b,
      "the other one",
    );
    a.peers.tell({ kind: "releases" });
    await until(
      async () => b.told,
      (told) => told.some(({ kind }) => kind === "releases"),
      "it is heard again",
    );
    assert.equal(a.counts.renamed, 0);
  });

  test("a server whose place was taken away goes on under another name", async (t) => {
    const { url, database } = await prepared();
    const a = await opened(t, url);
    const b = await opened(t, url);
    await together(a, b);
    const before = a.peers.self();

    await cluster.run(`DELETE FROM servers WHERE id = '${before}'`, database);

    await until(
      async () => a.counts.renamed,
      (count) => count === 1,
      "it is renamed",
    );
    assert.notEqual(a.peers.self(), before);
    await until(
      async () => b.peers.servers(),
      (servers) => servers.includes(a.peers.self()) && !servers.includes(before),
      "the other one knows it by its new name",
    );
  });

  test("a server that is silent although it is connected loses its place", async (t) => {
    const { url, database } = await prepared();
    const a = await opened(t, url);
    const ghost = "00000000-0000-4000-8000-000000000000";
    await cluster.run(
      `INSERT INTO servers SELECT '${ghost}', '1', 'one', 'u', now(), backend, backend_start FROM servers`,
      database,
    );

    await until(
      async () => a.peers.servers().length,
      (count) => count === 2,
      "it is seen",
    );
    await until(
      async () => a.peers.servers().length,
      (count) => count === 1,
      "it is gone",
    );
    await until(
      () => cluster.run(`SELECT id FROM servers WHERE id = '${ghost}'`, database),
      (rows) => rows.length === 0,
      "its place is taken away",
    );
  });

  test("a database that restarts leaves everybody in place", async (t) => {
    const { url } = await prepared();
    const a = await opened(t, url);
    const b = await opened(t, url);
    await together(a, b);
    const names = a.peers.servers();

    await cluster.crash();
    b.peers.tell({ kind: "releases" });

    await together(a, b);
    assert.deepEqual(a.peers.servers(), names);
    a.told.length = 0;
    await until(
      async () => {
        b.peers.tell({ kind: "releases" });
        return a.told.length;
      },
      (count) => count > 0,
      "they hear each other",
    );
  });

  test("a server with another data directory, or another address, is refused with a sentence", async (t) => {
    const { url } = await prepared();
    await opened(t, url);

    await assert.rejects(open(url, { directory: "two" }), /share their data directory/);
    await assert.rejects(open(url, { publicUrl: "https://other.example" }), /same --public-url/);
  });
}
