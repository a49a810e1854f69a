import assert from "node:assert/strict";
import { test } from "node:test";
import type { AgentEvent } from "@exclave/api";
import { Instant } from "@exclave/core";
import { createMemoryStore } from "../store/memory/memory-store.ts";
import type { AgentRow } from "../store/rows.ts";
import { ACME, AGENT, agentRow, installRow, jobRow } from "../testing/rows.ts";
import { commitLinkWrites } from "./commit-link-write.ts";
import type { LinkWrite } from "./link-state.ts";

const OFFERED_AT = Instant.parse(2_000);

/** What an inventory without any job makes of a job whose offer was acknowledged. */
async function statusAfterInventory(reset: AgentRow["reset"]): Promise<string | undefined> {
  const store = createMemoryStore();
  const job = jobRow({ state: { status: "offered", since: OFFERED_AT, cancelRequested: false } });
  await store.transaction(async (tx) => {
    await tx.installs.put(installRow());
    await tx.jobs.put(job);
    await tx.agents.put(agentRow({ reset }));
  });
  const event: AgentEvent = { type: "inventory", at: 1_500, jobs: [] };
  const now = () => Instant.parse(3_000);
  await commitLinkWrites({ store, now }, AGENT, 1, [{ kind: "event", seq: 1, event }]);
  return (await store.read.jobs.get(job.id))?.state.status;
}

test("an inventory that was asked for and has come is asked for no more", async () => {
  const store = createMemoryStore();
  await store.transaction((tx) => tx.agents.put(agentRow({ isInventoryWanted: true })));
  const now = () => Instant.parse(3_000);
  const event: AgentEvent = { type: "alarm", at: 1, code: "x", because: "x" };
  await commitLinkWrites({ store, now }, AGENT, 1, [{ kind: "event", seq: 1, event }]);
  assert.equal((await store.read.agents.get(AGENT))?.isInventoryWanted, true);

  const told: AgentEvent = { type: "inventory", at: 1, jobs: [] };
  await commitLinkWrites({ store, now }, AGENT, 1, [{ kind: "event", seq: 2, event: told }]);

  assert.equal((await store.read.agents.get(AGENT))?.isInventoryWanted, false);
});

test("an inventory that comes late takes no job away that the agent took on since", async () => {
  assert.equal(await statusAfterInventory(null), "offered");
  const before = { at: Instant.parse(1_000), because: "its journal is new" };
  assert.equal(await statusAfterInventory(before), "offered");
});

test("an offer that a new journal is sent again is not lost with the old one", async () => {
  const store = createMemoryStore();
  const state = { status: "offered", since: OFFERED_AT, cancelRequested: false } as const;
  const job = jobRow({ state });
  const offer = { type: "job_offer", job: job.id, attempt: job.attempt, payload: "" } as const;
  await store.transaction(async (tx) => {
    await tx.installs.put(installRow());
    await tx.jobs.put(job);
    await tx.agents.put(agentRow({ journalId: "before" }));
    await tx.outbox.add(ACME, offer);
  });
  const [waiting] = await store.read.outbox.waiting(ACME, 1);
  const now = () => Instant.parse(3_000);
  await commitLinkWrites({ store, now }, AGENT, 2, [
    {
      kind: "session",
      journalId: "after",
      upAcked: 0,
      downHead: 1,
      downAcked: 0,
      renumbered: [{ row: waiting?.id ?? 0, seq: 1, body: offer }],
      withdrawn: [],
      reset: "the agent's journal is a new one",
      isInventoryWanted: true,
      hello: { version: "0", platform: "", runtime: "" } as never,
    },
  ]);
  await commitLinkWrites({ store, now }, AGENT, 2, [{ kind: "acked", seq: 1 }]);

  const event: AgentEvent = { type: "inventory", at: 2_900, jobs: [] };
  await commitLinkWrites({ store, now }, AGENT, 2, [{ kind: "event", seq: 1, event }]);

  assert.equal((await store.read.jobs.get(job.id))?.state.status, "offered");
});

test("a job that was offered before the agent lost its journal is lost with it", async () => {
  const since = { at: Instant.parse(2_500), because: "its journal is new" };
  assert.notEqual(await statusAfterInventory(since), "offered");
});

test("what came together is written together, or not at all", async () => {
  const store = createMemoryStore();
  const job = jobRow({ state: { status: "offered", since: OFFERED_AT, cancelRequested: false } });
  await store.transaction(async (tx) => {
    await tx.installs.put(installRow());
    await tx.jobs.put(job);
    await tx.agents.put(agentRow({ downHead: 1 }));
  });
  const now = () => Instant.parse(3_000);
  const about = { at: 1, job: job.id, attempt: job.attempt };
  const accepted: LinkWrite = { kind: "event", seq: 1, event: { type: "job_accepted", ...about } };
  const started: LinkWrite = { kind: "event", seq: 2, event: { type: "job_started", ...about } };
  const isBroken = { kind: "event", seq: 3, event: { type: "unheard of" } } as never;

  const broken = commitLinkWrites({ store, now }, AGENT, 1, [accepted, isBroken]);
  await assert.rejects(broken);
  const after = {
    job: await store.read.jobs.get(job.id),
    agent: await store.read.agents.get(AGENT),
  };
  await commitLinkWrites({ store, now }, AGENT, 1, [{ kind: "acked", seq: 1 }, accepted, started]);

  assert.deepEqual([after.job?.state.status, after.agent?.upAcked], ["offered", 0]);
  assert.equal((await store.read.jobs.get(job.id))?.state.status, "running");
  const agent = await store.read.agents.get(AGENT);
  assert.deepEqual([agent?.upAcked, agent?.downAcked], [2, 1]);
});
