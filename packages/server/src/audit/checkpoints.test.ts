// What a real server shows of its record, and what it says when the record was set back.

import assert from "node:assert/strict";
import { copyFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { createToken } from "@exclave/api";
import {
  type AuditRecord,
  appendAudit,
  type Checkpoint,
  EMPTY_CHAIN,
  judgeRecord,
  keysOfRole,
  openCheckpoint,
  type SeenCheckpoint,
} from "@exclave/core";
import { verifySignature } from "@exclave/machine";
import { agentRow } from "../testing/rows.ts";
import { type TestServer, testServer } from "../testing/test-server.ts";

async function show({ server }: TestServer, sizes: readonly number[]) {
  const { checkpoints, trust, now } = server.context;
  await checkpoints.noteSeen("agent", sizes);
  const { envelope } = await checkpoints.latest();
  const keys = keysOfRole(trust.current().document, "checkpoint", now());
  const checkpoint = openCheckpoint(envelope, { ...keys, verify: verifySignature });
  assert.ok("size" in checkpoint, JSON.stringify(checkpoint));
  return { checkpoint, heads: await checkpoints.headsAt(sizes) };
}

async function grow({ client }: TestServer, rows: number): Promise<void> {
  for (let n = 0; n < rows; n++) {
    await client.call(createToken, { body: { name: `t${n}`, role: "viewer" } });
  }
}

const seenIn = ({ serverId, size, head, at }: Checkpoint): SeenCheckpoint => ({
  serverId,
  size,
  head,
  at,
});

test("a checkpoint is signed by its role and continues the one before, over a restart", async (t) => {
  const before = await testServer(t);
  await grow(before, 3);
  const seen = [seenIn((await show(before, [])).checkpoint)];
  const server = await before.restart();
  await grow(server, 2);

  const later = await show(
    server,
    seen.map(({ size }) => size),
  );

  assert.deepEqual(judgeRecord({ seen, ...later }), { kind: "continues" });
});

test("a record that was edited and hashed anew does not continue what was seen of it", async (t) => {
  const before = await testServer(t);
  await grow(before, 5);
  const seen = [seenIn((await show(before, [])).checkpoint)];
  await before.stop();
  rewrite(join(before.data, "exclave.db"));
  const server = await testServer(t, { data: before.data });

  const later = await show(
    server,
    seen.map(({ size }) => size),
  );

  assert.equal(judgeRecord({ seen, ...later }).kind, "refused");
  assert.deepEqual(later.checkpoint.setBack, []);
});

test("a server from an older backup says that its record was set back, once, and on record", async (t) => {
  const first = await testServer(t);
  await grow(first, 2);
  const early = seenIn((await show(first, [])).checkpoint);
  await first.stop();
  const database = join(first.data, "exclave.db");
  await copyFile(database, `${database}.backup`);
  const second = await testServer(t, { data: first.data });
  await grow(second, 9);
  const seen = [early, seenIn((await show(second, [early.size])).checkpoint)];
  await second.stop();
  for (const ending of ["", "-wal", "-shm"]) await rm(database + ending, { force: true });
  await copyFile(`${database}.backup`, database);
  // Restored with everything beside it: only what agents saw tells.
  await rm(join(first.data, "record-shown"));
  const third = await testServer(t, { data: first.data });

  const shown = await show(
    third,
    seen.map(({ size }) => size),
  );
  await show(
    third,
    seen.map(({ size }) => size),
  );

  const verdict = judgeRecord({ seen, ...shown });
  assert.equal(verdict.kind, "set_back", JSON.stringify(verdict));
  assert.ok(verdict.kind === "set_back" && verdict.keptSize >= early.size);
  const rows = await third.server.context.store.read.audit.newest(10, { subject: "record" });
  assert.deepEqual(
    rows.map(({ action, actor }) => [action, actor]),
    [["record.set_back", "agent"]],
  );
});

test("a server whose database alone is an older one declares it before its record grows again", async (t) => {
  const first = await testServer(t);
  await first.server.context.store.transaction((tx) => tx.agents.put(agentRow()));
  await grow(first, 2);
  await first.stop();
  const database = join(first.data, "exclave.db");
  await copyFile(database, `${database}.backup`);
  const second = await testServer(t, { data: first.data });
  await grow(second, 3);
  const seen = [seenIn((await show(second, [])).checkpoint)];
  await second.stop();
  for (const ending of ["", "-wal", "-shm"]) await rm(database + ending, { force: true });
  await copyFile(`${database}.backup`, database);
  const third = await testServer(t, { data: first.data });
  const agents = await third.server.context.store.read.agents.all();
  assert.deepEqual(
    agents.map(({ isInventoryWanted }) => isInventoryWanted),
    [true],
    "what an agent did meanwhile is asked of it, also while it is away",
  );
  // Nobody who saw more has come yet, and it is started once more.
  await grow(third, 1);
  const fourth = await third.restart();
  await grow(fourth, 9);

  const shown = await show(
    fourth,
    seen.map(({ size }) => size),
  );

  assert.equal(judgeRecord({ seen, ...shown }).kind, "set_back");
});

/** As somebody with the file would do it: one row changed, every later hash made to fit. */
function rewrite(file: string): void {
  const database = new DatabaseSync(file);
  const rows = database.prepare("select * from audit order by seq").all();
  let head = EMPTY_CHAIN;
  for (const row of rows) {
    const entry = {
      at: Number(row["at"]) as AuditRecord["at"],
      actor: row["seq"] === 2 ? "somebody else" : String(row["actor"]),
      action: String(row["action"]),
      subject: String(row["subject"]),
      details: JSON.parse(String(row["details"])) as AuditRecord["details"],
    };
    const record = appendAudit(head, entry);
    database
      .prepare("update audit set actor = ?, prev_hash = ?, hash = ? where seq = ?")
      .run(record.actor, record.prevHash, record.hash, record.seq);
    head = { size: record.seq, head: record.hash };
  }
  database.close();
}
