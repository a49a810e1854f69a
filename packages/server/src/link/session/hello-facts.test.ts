import assert from "node:assert/strict";
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { test } from "node:test";
import { type AgentFrame, helloBytes } from "@exclave/api";
import { Instant } from "@exclave/core";
import { createRepeats } from "../../access/repeats.ts";
import { createMemoryJobLogs } from "../../job/memory-job-logs.ts";
import { createMemoryStore } from "../../store/memory/memory-store.ts";
import { AGENT, AT, agentRow, jobRow } from "../../testing/rows.ts";
import { closeLeftLogs } from "../close-log.ts";
import { createAgentQuotas } from "./agent-quota.ts";
import { gatherHello } from "./hello-facts.ts";

const NONCE = "nonce";

/** A job that ended, its log on disk, and what its agent says when it comes back. */
async function endedJob(said: { readonly sha256?: string } = {}) {
  const store = createMemoryStore();
  const logs = createMemoryJobLogs();
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const identityKey = publicKey.export({ format: "der", type: "spki" }).toString("base64");
  const text = Buffer.from("all it said\n");
  const sha256 = createHash("sha256").update(text).digest("hex");
  const job = jobRow({
    state: { status: "succeeded", since: AT },
    endedAt: AT,
    log: { bytes: text.length, sha256, ...said },
  });
  await store.transaction(async (tx) => {
    await tx.agents.put(agentRow({ identityKey }));
    await tx.jobs.put(job);
  });
  await logs.append(job.id, job.attempt, 0, text);
  const bytes = helloBytes(NONCE, AGENT, "boot");
  const hello: Extract<AgentFrame, { type: "hello" }> = {
    type: "hello",
    protos: [1],
    agent: AGENT,
    version: "0",
    platform: "",
    runtime: "",
    capabilities: [],
    keyGeneration: 1,
    bootId: "boot",
    downAcked: 1,
    upHead: 1,
    upFrom: 1,
    journalId: "journal",
    issueNo: 1,
    jobs: [{ job: job.id, attempt: job.attempt, state: "ended", logOffset: text.length }],
    clockMs: AT,
    proof: sign(null, bytes, privateKey).toString("base64"),
  };

  const settings = { pingMs: 1, reconnectSpreadMs: 1, logCreditBytes: 1, frameBytes: 1 };
  const now = () => Instant.parse(2_000);
  const context = { store, logs, now, repeats: createRepeats({ now }) };
  const options = { nonce: NONCE, settings, quotas: createAgentQuotas() };
  return {
    store,
    job,
    comeBack: () => gatherHello(context, hello, options),
    startServer: () => closeLeftLogs(context),
  };
}

test("a log that was whole when the server crashed is closed when its agent comes back", async () => {
  const { store, job, comeBack } = await endedJob();

  await comeBack();

  assert.equal((await store.read.jobs.get(job.id))?.logComplete, true);
});

test("a log that is whole is closed when the server starts, though its agent has forgotten the job", async () => {
  const { store, job, startServer } = await endedJob();

  await startServer();

  assert.equal((await store.read.jobs.get(job.id))?.logComplete, true);
});

test("a log that is not what the agent said is on record once, however often it comes back", async () => {
  const { store, job, comeBack } = await endedJob({ sha256: "another" });

  for (let n = 0; n < 5; n++) await comeBack();

  const rows = await store.read.audit.newest(10);
  assert.deepEqual(
    rows.map(({ action, subject }) => [action, subject]),
    [["job.log_mismatch", job.id]],
  );
  assert.equal((await store.read.jobs.get(job.id))?.logComplete, false);
});
