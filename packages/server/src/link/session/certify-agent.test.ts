import assert from "node:assert/strict";
import { test } from "node:test";
import { Instant } from "@exclave/core";
import { createRepeats } from "../../access/repeats.ts";
import { createMemoryStore } from "../../store/memory/memory-store.ts";
import { AT, agentRow } from "../../testing/rows.ts";
import { certifyAgent } from "./certify-agent.ts";

const HOUR_MS = 60 * 60_000;

test("an agent that comes again and again without its certificate leaves two rows an hour", async () => {
  const store = createMemoryStore();
  const agent = agentRow();
  await store.transaction((tx) => tx.agents.put(agent));
  let now: number = AT;
  const repeats = createRepeats({ now: () => now });
  const sent: unknown[] = [];
  const context = {
    store,
    repeats,
    now: () => Instant.parse(now),
    certificates: { issue: () => ({ certificate: "" }) } as never,
  };
  const connection = { peer: { agent } as never, send: (frame: unknown) => void sent.push(frame) };
  const comeAgain = () =>
    certifyAgent(context, connection, { until: now, because: "it shows no certificate" });

  for (let times = 0; times < 100; times++, now += 30_000) await comeAgain();

  const record = await store.read.audit.after(0, 1_000);
  assert.equal(sent.length, 100);
  assert.equal(record.length, 1);
  assert.deepEqual(repeats.due(), []);
  now += HOUR_MS;
  const [counted] = repeats.due();
  assert.equal(counted?.details["more"], 99);
  await comeAgain();
  assert.equal((await store.read.audit.after(0, 1_000)).length, 2);
});
