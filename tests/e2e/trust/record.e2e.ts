// The record against somebody who has the server's files: with the server stopped its database is
// really edited, and what agents kept finds it. And what such a person finds in these files: no secret.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { type TestContext, test } from "node:test";
import { decodeJoinString } from "@exclave/api";
import { type AuditHead, type AuditRecord, appendAudit, EMPTY_CHAIN } from "@exclave/core";
import { processes, ROOT, until, type World } from "../testing/harness.ts";
import { createShopWorld } from "../testing/shop-app.ts";

test("whoever has the server's files can neither change the record unseen nor read a secret", async (t) => {
  const world = await createShopWorld(t, { prepare: addPassword });
  const database = join(world.home, "server/exclave.db");
  const agentHome = join(world.home, "agents/setup");
  const kept = join(world.place, "kept.json");
  const exported = join(world.place, "record.jsonl");
  const secrets = await gatherSecrets(world);

  await t.test(
    "no file below the server's directory holds a secret, running or stopped",
    async () => {
      assert.ok(Object.keys(secrets).length >= 6, Object.keys(secrets).join());
      assert.deepEqual(findSecrets(world, secrets), []);
    },
  );

  await t.test("agents keep signed checkpoints, and the record passes through them", async () => {
    await until("the setup agent has seen a checkpoint", async () => {
      writeFileSync(kept, await world.exclave("agent", "checkpoints", "--home", agentHome));
      return JSON.parse(readFileSync(kept, "utf8")).checkpoints.length > 0;
    });
    assert.match(await world.exclave("audit", "verify", "--checkpoints", kept), /is whole/);
    const { agents } = await world.json<{ agents: number }>("audit", "verify");
    assert.ok(agents >= 2, `${agents} agents presented what they saw`);
    // An agent on a busy machine may answer later than the command waits.
    await until("the agent of acme presents what it saw", async () => {
      const found = await world.json<{ agents: number }>("audit", "verify", "--install", "acme");
      return found.agents === 1;
    });
    await world.exclave("audit", "export", exported);
  });

  await world.down();
  assert.deepEqual(findSecrets(world, secrets), []);
  copyFileSync(database, `${database}.good`);

  await t.test("an edit of one row is found by the chain itself", async (t) => {
    edit(database, "update audit set actor = 'nobody' where seq = 2");
    await withServer(t, world, async (verify) => {
      const found = await verify();
      assert.notEqual(found.code, 0);
      assert.match(found.stderr, /broken at row 2/);
    });
  });

  await t.test(
    "a chain rewritten and hashed anew is found by what an agent kept, and refused by it",
    async (t) => {
      copyFileSync(`${database}.good`, database);
      rewrite(database);
      // As somebody who is thorough would: what agents had presented goes too.
      edit(database, "delete from agent_checkpoints");
      await withServer(t, world, async (verify) => {
        assert.equal((await verify()).code, 0, "such a chain is whole in itself");
        const found = await verify("--checkpoints", kept);
        assert.notEqual(found.code, 0);
        assert.match(found.stderr, /is not the record that was seen/);
        await assertRefusedByAgent(t, world, agentHome);
        // Now without a file: the agent that refused it has presented what it saw.
        await until("the record is found out by what the agent presented", async () => {
          const { code, stderr } = await verify();
          return code !== 0 && stderr.includes("is not the record that was seen");
        });
      });
    },
  );

  await t.test("a chain that was cut is found by what an agent kept", async (t) => {
    copyFileSync(`${database}.good`, database);
    const { checkpoints } = JSON.parse(readFileSync(kept, "utf8")) as { checkpoints: AuditHead[] };
    const seen = Math.max(...checkpoints.map(({ size }) => size));
    edit(database, `delete from audit where seq >= ${seen}`);
    copyFileSync(database, `${database}.cut`);
    await withServer(t, world, async (verify) => {
      // The server knows how long it was, and says on record what a restored backup would have it say.
      assert.match(
        (await verify("--checkpoints", kept)).stdout,
        /rows after \d+ were lost when the server was restored/,
      );
    });
    // As somebody who is thorough would: what the server remembers goes too.
    copyFileSync(`${database}.cut`, database);
    rmSync(join(world.home, "server/record-shown"));
    await withServer(t, world, async (verify) => {
      const found = await verify("--checkpoints", kept);
      assert.notEqual(found.code, 0);
    });
  });

  await t.test("an export is verified without a server, and an edit of it is found", async () => {
    const good = await world.attempt("audit", "verify", "--file", exported);
    const text = readFileSync(exported, "utf8");
    writeFileSync(exported, text.replace('"actor":"server"', '"actor":"nobody"'));
    const edited = await world.attempt("audit", "verify", "--file", exported);

    assert.equal(good.code, 0, good.stderr);
    assert.notEqual(edited.code, 0);
    assert.match(edited.stderr, /the record is broken/);
  });
});

/** Every kind of secret there is in this world, by value. */
async function gatherSecrets(world: World): Promise<Record<string, string>> {
  const made = await world.json<{ token: string }>("token", "create", "ci", "--role", "viewer");
  const url = readFileSync(join(world.home, "server/port"), "utf8").trim();
  const admin = readFileSync(join(world.home, "server/admin-token"), "utf8").trim();
  const response = await fetch(`http://127.0.0.1:${url}/v1/joins`, {
    method: "POST",
    headers: { authorization: `Bearer ${admin}`, "content-type": "application/json" },
    body: JSON.stringify({ kind: "build" }),
  });
  const { joinString } = (await response.json()) as { joinString: string };
  const join_ = decodeJoinString(joinString);
  const web = processes(world.place).find(({ pid }) => sessionKeyOf(pid) !== undefined);
  const generated = web && sessionKeyOf(web.pid);
  assert.ok(join_ && generated);
  const password = world.read("password.txt");
  assert.equal(password.length, 32);
  return { admin, token: made.token, joinString, joinSecret: join_.secret, generated, password };
}

/** A sensitive output that is in no source: made when the database is applied. */
function addPassword(world: World): void {
  world.write(
    "shop/database/apply.sh",
    `#!/bin/sh
set -eu
password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')
printf '%s' "$password" > ${world.place}/password.txt
printf '{"url":"db://one","password":{"value":"%s","sensitive":true}}' "$password" > "$EXCLAVE_OUTPUTS"
`,
  );
}

function sessionKeyOf(pid: number): string | undefined {
  try {
    const environment = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
    return environment.find((one) => one.startsWith("SESSION_KEY="))?.slice("SESSION_KEY=".length);
  } catch {
    return undefined;
  }
}

/** In database pages and its log, job logs, uploads, registry blobs: every byte of every file. */
function findSecrets(world: World, secrets: Readonly<Record<string, string>>): string[] {
  const directory = join(world.home, "server");
  return readdirSync(directory, { recursive: true, encoding: "utf8" }).flatMap((path) => {
    // The one file that is there to hand the first token to its owner.
    if (path === "admin-token" || !statSync(join(directory, path)).isFile()) return [];
    const bytes = readFileSync(join(directory, path));
    return Object.entries(secrets)
      .filter(([, value]) => bytes.includes(value))
      .map(([name]) => `${name} is in ${path}`);
  });
}

function edit(file: string, sql: string): void {
  const database = new DatabaseSync(file);
  const { changes } = database.prepare(sql).run();
  database.close();
  assert.ok(Number(changes) > 0);
}

function rewrite(file: string): void {
  const database = new DatabaseSync(file);
  let head = EMPTY_CHAIN;
  for (const row of database.prepare("select * from audit order by seq").all()) {
    const record = appendAudit(head, {
      at: Number(row["at"]) as AuditRecord["at"],
      actor: row["seq"] === 2 ? "nobody" : String(row["actor"]),
      action: String(row["action"]),
      subject: String(row["subject"]),
      details: JSON.parse(String(row["details"])) as AuditRecord["details"],
    });
    database
      .prepare("update audit set actor = ?, prev_hash = ?, hash = ? where seq = ?")
      .run(record.actor, record.prevHash, record.hash, record.seq);
    head = { size: record.seq, head: record.hash };
  }
  database.close();
}

type Verify = (...args: string[]) => ReturnType<World["attempt"]>;

/** The server alone, on its own port, on whatever is in its directory now. */
async function withServer(t: TestContext, world: World, look: (verify: Verify) => Promise<void>) {
  const data = join(world.home, "server");
  const port = readFileSync(join(data, "port"), "utf8").trim();
  const url = `http://127.0.0.1:${port}`;
  const server = start(t, world, "packages/server/src/main.ts", [
    "--data",
    data,
    "--address",
    `127.0.0.1:${port}`,
  ]);
  assert.ok(server.stdout);
  await once(createInterface(server.stdout), "line");
  const reach = ["--server", url, "--token-file", join(data, "admin-token")];
  try {
    await look((...args) => world.attempt("audit", "verify", ...args, ...reach));
  } finally {
    const ended = once(server, "exit");
    server.kill("SIGTERM");
    await ended;
  }
}

async function assertRefusedByAgent(t: TestContext, world: World, home: string): Promise<void> {
  const agent = start(t, world, "packages/agent/src/main.ts", ["setup", "--home", home]);
  let said = "";
  agent.stderr?.on("data", (chunk: Buffer) => (said += chunk.toString()));
  await until("the agent refuses the server", () =>
    said.includes("the server's record is refused"),
  );
  const ended = once(agent, "exit");
  agent.kill("SIGTERM");
  await ended;
}

function start(t: TestContext, world: World, program: string, args: string[]): ChildProcess {
  const child = spawn(process.execPath, [join(ROOT, program), ...args], { env: world.env() });
  t.after(() => child.kill("SIGKILL"));
  return child;
}
