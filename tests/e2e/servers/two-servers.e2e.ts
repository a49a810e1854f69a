// Two server processes on one PostgreSQL database: they share agents, and one of them may be killed, drained or stand
// still without anything being lost or done twice.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { endProcess } from "@exclave/server/testing/load";
import { skip } from "../database/testing/postgres-database.ts";
import { until } from "../testing/harness.ts";
import { addressOf, assertNothingLost, createFleetWorld, online } from "./testing/fleet-world.ts";

const AGENTS = 24;

test("two servers share agents, and one may be killed or drained under load", {
  skip,
}, async (t) => {
  const world = await createFleetWorld(t, AGENTS);
  const { balancer, fleet } = world;
  let first = await world.start();
  let second = await world.start();
  balancer.use([first.port, second.port]);
  await fleet.connect(balancer.url);
  const all = () => until("all agents are back", () => fleet.liveCount() === AGENTS);

  await t.test("agents are spread over both, and each knows of all", async () => {
    const held = await world.heldBy();
    assert.equal(held.size, 2);
    assert.deepEqual([...held.values()], [AGENTS / 2, AGENTS / 2]);
    for (const server of [first, second]) {
      await until("all are seen", async () => (await online(server)) === AGENTS);
    }
  });

  await t.test("each tells of what happens at the other", async () => {
    const over = new AbortController();
    const seen = [first, second].map((server) => watched(addressOf(server), server.token, over));
    const asked: string[] = [];
    for (const install of world.installs) asked.push(await world.ask(install));

    for (const subjects of seen) {
      await until("every job was told of", () => asked.every((job) => subjects.has(job)));
    }
    over.abort();
    await assertNothingLost(world, asked);
  });

  const load = world.load();
  await t.test("one is killed: its agents go to the other, and back to both", async () => {
    await until("jobs run", () => load.asked.length > 20);
    await endProcess(first.child, "SIGKILL");
    await all();
    assert.equal(await online(second), AGENTS);
    first = await world.start(first.port);
    const before = load.asked.length;
    await until("jobs run", () => load.asked.length > before + 20);
  });

  await t.test("one is drained for an upgrade and comes back", async () => {
    await endProcess(second.child, "SIGTERM");
    await all();
    second = await world.start(second.port);
    const before = load.asked.length;
    await until("jobs run", () => load.asked.length > before + 20);
  });

  await t.test("nothing is lost, nothing is done twice, no call failed twice", async () => {
    await load.stop();
    await assertNothingLost(world, load.asked);
  });
});

test("a server that stood still while its agents moved writes nothing of theirs", {
  skip,
}, async (t) => {
  const world = await createFleetWorld(t, 8);
  const { balancer, fleet } = world;
  const first = await world.start();
  const second = await world.start();
  balancer.use([first.port]);
  await fleet.connect(balancer.url);
  const [before] = await world.heldBy();
  assert.equal(before?.[1], 8);

  // What agents say of these jobs lies in the sockets of a server that does not read it.
  const asked: string[] = [];
  for (const install of world.installs) asked.push(await world.ask(install));
  first.child.kill("SIGSTOP");
  await sleep(500);
  balancer.use([second.port]);
  balancer.sever(first.port);
  await until("all agents are with the other", () => fleet.liveCount() === 8);
  const isThere = async () =>
    (await world.query(`SELECT id FROM servers WHERE id = '${before[0]}'`)).length > 0;
  await until("its place is taken away", async () => !(await isThere()));
  for (const install of world.installs) asked.push(await world.ask(install));
  const agents = "SELECT key, body::jsonb - 'seenAt' AS body FROM agents ORDER BY key";
  await assertNothingLost(world, asked);
  const rows = await world.query(agents);

  first.child.kill("SIGCONT");
  await until("it has begun anew", async () => {
    const servers = await world.query("SELECT id FROM servers");
    return servers.length === 2 && !(await isThere());
  });

  await assertNothingLost(world, asked);
  assert.deepEqual(await world.query(agents), rows, "no agent's row was touched");
  balancer.use([first.port]);
  assert.equal(await online(first), 8);
  asked.push(await world.ask(world.installs[0] ?? ""));
  await assertNothingLost(world, asked);
});

/** Subjects of events, as somebody who watches that server sees them. */
function watched(url: string, token: string, over: AbortController): ReadonlySet<string> {
  const subjects = new Set<string>();
  void (async () => {
    const response = await fetch(`${url}/v1/events`, {
      headers: { authorization: `Bearer ${token}` },
      signal: over.signal,
    });
    let held = "";
    for await (const chunk of response.body ?? []) {
      const lines = (held + Buffer.from(chunk).toString()).split("\n");
      held = lines.pop() ?? "";
      for (const line of lines) {
        if (!line.startsWith("data: ")) continue;
        subjects.add((JSON.parse(line.slice(6)) as { subject: string }).subject);
      }
    }
  })().catch(() => undefined);
  return subjects;
}
