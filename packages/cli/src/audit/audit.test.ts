// `audit verify` and `audit export` against a record with real signatures.

import assert from "node:assert/strict";
import { generateKeyPairSync, sign } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { type AuditView, PAGE_ITEMS_MAX } from "@exclave/api";
import {
  appendAudit,
  CHECKPOINT_PAYLOAD_TYPE,
  checkpointBytes,
  digestOfBytes,
  EMPTY_CHAIN,
  type Envelope,
  Instant,
  type KeyScheme,
  newTrust,
  preAuthEncoding,
  sha256Hex,
  TRUST_PAYLOAD_TYPE,
  trustBytes,
} from "@exclave/core";
import { createApiDouble } from "../testing/api-double.ts";
import { createBench } from "../testing/run-cli.ts";
import { auditRows, page } from "../testing/views.ts";

const NOW = Instant.parse(Date.now());

function key() {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const der = publicKey.export({ format: "der", type: "spki" });
  return {
    keyid: sha256Hex(der),
    spki: der.toString("base64"),
    scheme: "ed25519" as KeyScheme,
    seal(payloadType: string, payload: Uint8Array): Envelope {
      const sig = sign(null, preAuthEncoding(payloadType, payload), privateKey).toString("base64");
      const signatures = [{ keyid: sha256Hex(der), sig }];
      return { payloadType, payload: Buffer.from(payload).toString("base64"), signatures };
    },
  };
}

const keys = { root: key(), director: key(), release: key(), checkpoint: key() };
const document = newTrust(keys, { origins: ["http://127.0.0.1"], now: NOW });
const trust = [keys.root.seal(TRUST_PAYLOAD_TYPE, trustBytes(document))];
const serverId = digestOfBytes(trustBytes(document));

function checkpointOf(rows: readonly AuditView[], by = keys.checkpoint): Envelope {
  const last = rows.at(-1);
  assert.ok(last);
  const payload = { serverId, size: last.seq, head: last.hash, at: NOW, setBack: [] };
  return by.seal(CHECKPOINT_PAYLOAD_TYPE, checkpointBytes(payload));
}

interface AuditQuery {
  readonly limit?: unknown;
  readonly after?: unknown;
  readonly before?: unknown;
  readonly newest?: unknown;
}

/** As the server does it: so many at most, and where the next ones begin. */
function pageOf(rows: readonly AuditView[], query: AuditQuery) {
  const limit = Number(query.limit ?? PAGE_ITEMS_MAX);
  assert.ok(limit <= PAGE_ITEMS_MAX, `a page of ${limit}`);
  if (String(query.newest) !== "true") {
    return page(rows.filter(({ seq }) => seq > Number(query.after ?? 0)).slice(0, limit));
  }
  const before = Number(query.before ?? Number.POSITIVE_INFINITY);
  const items = rows.filter(({ seq }) => seq < before).slice(-limit);
  return { items, next: (items[0]?.seq ?? 1) > 1 ? String(items[0]?.seq) : null };
}

async function benchWith(
  t: TestContext,
  rows: AuditView[],
  checkpoint = checkpointOf(rows),
  seen: readonly { install: string; checkpoints: readonly Envelope[] }[] = [],
) {
  const listAudit = ({ query }: { query: AuditQuery }) => ({
    ...pageOf(rows, query),
    size: rows.length,
    head: rows.at(-1)?.hash ?? "",
  });
  const getCheckpoint = () => ({ checkpoint, trust });
  const listCheckpoints = ({ query }: { query: { install?: unknown } }) =>
    page(
      seen
        .filter(({ install }) => query.install === undefined || query.install === install)
        .map((one) => ({ agent: "a", status: "offline", at: null, ...one })),
    );
  const calls = { listAudit, getCheckpoint, listCheckpoints };
  return createBench(t, await createApiDouble(t, calls));
}

/** As somebody with the database would do it: one row changed, all hashes made to fit. */
function rewritten(rows: readonly AuditView[], length = rows.length): AuditView[] {
  let head = EMPTY_CHAIN;
  return rows.slice(0, length).map((row) => {
    const actor = row.seq === 2 ? "somebody else" : row.actor;
    const record = appendAudit(head, { ...row, actor, at: Instant.parse(row.at) });
    head = { size: record.seq, head: record.hash };
    return record;
  });
}

describe("audit verify", () => {
  const rows = auditRows(5);

  test("says how long a whole record is, and whose", async (t) => {
    const bench = await benchWith(t, rows);

    const { exitCode, stdout } = await bench.run(["audit", "verify", "-o", "json"]);

    assert.equal(exitCode, 0);
    const head = rows[4]?.hash;
    assert.deepEqual(JSON.parse(stdout), {
      ok: true,
      size: 5,
      head,
      serverId,
      checkpoints: 1,
      agents: 0,
      setBacks: [],
    });
  });

  test("names the first row that was changed", async (t) => {
    const changed = rows.map((row) => (row.seq === 3 ? { ...row, actor: "nobody" } : row));
    const bench = await benchWith(t, changed);

    const { exitCode, stdout, stderr } = await bench.run(["audit", "verify", "-o", "json"]);

    assert.equal(exitCode, 1);
    assert.equal(JSON.parse(stdout).seq, 3);
    assert.match(stderr, /broken at row 3/);
  });

  test("finds a chain that was rewritten and rehashed, or shortened, by what an agent kept", async (t) => {
    for (const forged of [rewritten(rows), rewritten(rows, 4), rows.slice(0, 4)]) {
      const bench = await benchWith(t, forged);
      const file = join(bench.directory, "kept.json");
      await writeFile(file, JSON.stringify({ checkpoints: [{ envelope: checkpointOf(rows) }] }));

      const alone = await bench.run(["audit", "verify"]);
      const withKept = await bench.run(["audit", "verify", "--checkpoints", file]);

      assert.equal(alone.exitCode, 0, "such a chain is whole in itself");
      assert.equal(withKept.exitCode, 1);
      assert.match(withKept.stderr, /broken at row 5/);
    }
  });

  test("finds such a chain from what agents presented, without a file, and by one install's alone", async (t) => {
    const whole = [checkpointOf(rows)];
    const seen = [
      { install: "acme", checkpoints: whole },
      { install: "globex", checkpoints: [checkpointOf(rows.slice(0, 1))] },
    ];
    const forged = await benchWith(t, rewritten(rows), undefined, seen);
    const good = await benchWith(t, rows, undefined, seen);

    const found = await forged.run(["audit", "verify"]);
    const acme = await forged.run(["audit", "verify", "--install", "acme"]);
    const globex = await forged.run(["audit", "verify", "--install", "globex"]);
    const ok = await good.run(["audit", "verify"]);
    const both = await good.run(["audit", "verify", "--install", "acme", "--file", "x"]);

    assert.match(found.stderr, /broken at row 5: it is not the record that was seen/);
    assert.equal(acme.exitCode, 1);
    assert.equal(globex.exitCode, 0, "globex saw the first row alone, which is as it was");
    assert.match(ok.stdout, /what 2 agents saw of it/);
    assert.match(both.stderr, /--file needs no server/);
  });

  test("takes no checkpoint that another key signed", async (t) => {
    const bench = await benchWith(t, rows, checkpointOf(rows, keys.director));

    const { exitCode, stderr } = await bench.run(["audit", "verify"]);

    assert.equal(exitCode, 1);
    assert.match(stderr, /not signed by a checkpoint key/);
  });
});

describe("audit export", () => {
  const rows = auditRows(5);

  test("is verified without a server, and an edit of it is found", async (t) => {
    const bench = await benchWith(t, rows);
    const file = join(bench.directory, "record.jsonl");
    assert.equal((await bench.run(["audit", "export", file])).exitCode, 0);
    const offline = { environment: { EXCLAVE_SERVER: "http://127.0.0.1:1" } };
    const verify = ["audit", "verify", "--file", file];

    const good = await bench.run(verify, offline);
    const text = await readFile(file, "utf8");
    await writeFile(file, text.replace(/"actor":"[^"]*"/, '"actor":"somebody else"'));
    const edited = await bench.run(verify, offline);
    const lines = text.trimEnd().split("\n");
    await writeFile(file, `${lines.slice(0, -1).join("\n")}\n`);
    const cut = await bench.run(verify, offline);

    assert.equal(good.exitCode, 0, good.stderr);
    assert.match(edited.stderr, /the record is broken at row/);
    assert.match(cut.stderr, /the chain ends at 4, and 5 records were seen before/);
  });
});

test("a record of several pages is listed, verified and exported whole", async (t) => {
  const rows = auditRows(2 * PAGE_ITEMS_MAX + 50);
  const bench = await benchWith(t, rows);
  const file = join(bench.directory, "record.jsonl");

  const listed = await bench.run(["audit", "list", "--limit", "300", "-o", "json"]);
  const verified = await bench.run(["audit", "verify", "-o", "json"]);
  const exported = await bench.run(["audit", "export", file, "-o", "json"]);

  const seqs = (JSON.parse(listed.stdout) as AuditView[]).map(({ seq }) => seq);
  assert.deepEqual(
    seqs,
    rows.slice(-300).map(({ seq }) => seq),
  );
  assert.equal(JSON.parse(verified.stdout).size, rows.length);
  assert.equal(JSON.parse(exported.stdout).rows, rows.length);
  const lines = (await readFile(file, "utf8")).trimEnd().split("\n");
  assert.equal(lines.length, rows.length + 1);
});
