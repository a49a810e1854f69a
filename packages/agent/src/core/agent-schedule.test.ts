import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { job, NOW } from "../testing/builders.ts";
import { agentWith, kinds, nameOf, SUCCEEDED, types } from "../testing/core-agent.ts";
import type { AgentEffect } from "./agent-state.ts";

describe("an inventory for a server that was set back", () => {
  const inventoryOf = (agent: ReturnType<typeof agentWith>) => {
    agent.feed({ kind: "disconnected" });
    agent.frame({ type: "challenge", nonce: "n" });
    agent.welcome(undefined, [], { inventoryWanted: true });
    return agent.told().findLast(({ type }) => type === "inventory");
  };

  test("names what was applied although nobody looks at its health, and what was destroyed", () => {
    const agent = agentWith();
    agent.welcome();
    const apply = job("apply", { release: "r1" });
    agent.run(apply);
    agent.feed({ kind: "exited", name: nameOf(apply), ended: SUCCEEDED });

    const applied = inventoryOf(agent);
    const destroy = job("destroy", { operation: "destroy" });
    agent.run(destroy);
    agent.feed({ kind: "exited", name: nameOf(destroy), ended: SUCCEEDED });
    const destroyed = inventoryOf(agent.restart());

    assert.ok(applied?.type === "inventory" && destroyed?.type === "inventory");
    assert.deepEqual(
      applied.deployed?.map(({ component }) => component),
      ["api"],
    );
    assert.deepEqual([destroyed.deployed, destroyed.destroyed], [[], ["api"]]);
  });
});

describe("health on the agent's own schedule", () => {
  function deployed() {
    const agent = agentWith();
    agent.welcome();
    const manifest = job("apply", { statusEveryMs: 5_000 });
    agent.run(manifest);
    const effects = agent.feed({ kind: "exited", name: nameOf(manifest), ended: SUCCEEDED });
    return { agent, status: statusIn(effects) };
  }
  const statusIn = (effects: readonly AgentEffect[]) =>
    effects.flatMap((effect) => (effect.kind === "status" ? [effect.name] : []))[0];
  const healthy = { health: "healthy", because: "it answers" } as const;

  test("is looked up right after an apply, and reported", () => {
    const { agent, status } = deployed();
    assert.ok(status);

    agent.feed({ kind: "status_seen", component: "api", name: status, seen: healthy });

    const event = agent.told().at(-1);
    assert.deepEqual(event, { type: "health", at: NOW, component: "api", ...healthy });
  });

  test("is reported only when it changes, with the server away as well", () => {
    const { agent, status } = deployed();
    assert.ok(status);
    agent.feed({ kind: "status_seen", component: "api", name: status, seen: healthy });
    agent.feed({ kind: "disconnected" });

    const second = statusIn(agent.feed({ kind: "tick" }, NOW + 5_000));
    assert.ok(second, "it goes on without a server");
    const same = agent.feed(
      { kind: "status_seen", component: "api", name: second, seen: healthy },
      NOW + 5_100,
    );
    assert.deepEqual(same, []);

    const third = statusIn(agent.feed({ kind: "tick" }, NOW + 10_200));
    assert.ok(third);
    const seen = { health: "degraded", because: "it does not answer" } as const;
    agent.feed({ kind: "status_seen", component: "api", name: third, seen }, NOW + 10_300);
    const event = agent.told().at(-1);
    assert.equal(event?.type === "health" && event.health, "degraded");
  });

  test("every pong says how long ago each component was looked at, changed or not", () => {
    const { agent, status } = deployed();
    assert.ok(status);
    const pong = (now: number) =>
      agent.feed({ kind: "frame", frame: { type: "ping", id: 7 } }, now).at(-1);
    const looks = (now: number) => {
      const effect = pong(now);
      return effect?.kind === "send" && effect.frame.type === "pong" ? effect.frame.looks : [];
    };

    assert.deepEqual(looks(NOW), []);
    agent.feed({ kind: "status_seen", component: "api", name: status, seen: healthy });
    assert.deepEqual(looks(NOW + 1_000), [{ component: "api", agoMs: 1_000 }]);
    const second = statusIn(agent.feed({ kind: "tick" }, NOW + 5_000));
    assert.ok(second);
    agent.feed({ kind: "status_seen", component: "api", name: second, seen: healthy }, NOW + 5_100);

    assert.deepEqual(looks(NOW + 5_300), [{ component: "api", agoMs: 200 }]);
  });

  test("is looked up at once after a clock that was ahead, which says nothing of when it was", () => {
    const { agent, status } = deployed();
    assert.ok(status);
    const ahead = NOW + 3_600_000;
    agent.feed({ kind: "status_seen", component: "api", name: status, seen: healthy }, ahead);

    const again = statusIn(agent.feed({ kind: "tick" }, NOW + 1_000));
    const pong = agent.feed({ kind: "frame", frame: { type: "ping", id: 7 } }, NOW + 1_000).at(-1);

    assert.ok(again);
    assert.deepEqual(pong?.kind === "send" && pong.frame.type === "pong" && pong.frame.looks, []);
  });

  test("is reported anew when it cannot be looked up for another reason", () => {
    const { agent, status } = deployed();
    assert.ok(status);
    const seen = { health: "unknown", because: "it cannot be read" } as const;
    agent.feed({ kind: "status_seen", component: "api", name: status, seen });

    const second = statusIn(agent.feed({ kind: "tick" }, NOW + 5_000));
    assert.ok(second);
    const missing = { ...seen, code: "not_synced" } as const;
    agent.feed({ kind: "status_seen", component: "api", name: second, seen: missing }, NOW + 5_100);

    const event = agent.told().at(-1);
    assert.equal(event?.type === "health" && event.code, "not_synced");
  });

  test("is never looked up twice at a time", () => {
    const { agent } = deployed();

    const effects = agent.feed({ kind: "tick" }, NOW + 60_000);

    assert.equal(statusIn(effects), undefined);
  });

  test("makes way for a job that changes the component", () => {
    const { agent, status } = deployed();
    assert.ok(status);

    const offered = agent.offer(job("next"));
    assert.ok(kinds(offered).includes("stop"), "the look-up is stopped");
    assert.ok(!kinds(offered).includes("launch"));
    const ticked = agent.feed({ kind: "tick" });
    assert.deepEqual(kinds(ticked), [], "and stopped once");

    const seen = { health: "unknown", because: "it was stopped" } as const;
    const effects = agent.feed({ kind: "status_seen", component: "api", name: status, seen });
    assert.ok(kinds(effects).includes("launch"));
    assert.ok(!types(agent.told()).includes("health"), "a look-up that was cut short says nothing");
  });

  test("ends with the component, and goes on after a restart", () => {
    const { agent } = deployed();
    const restarted = agent.restart();
    const effects = restarted.feed({ kind: "restored", found: [], fresh: false });
    const status = statusIn(effects);
    assert.ok(status);
    restarted.feed({ kind: "status_seen", component: "api", name: status, seen: healthy });
    restarted.welcome(0);
    const destroy = job("destroy", { operation: "destroy" });
    restarted.run(destroy);

    restarted.feed({ kind: "exited", name: nameOf(destroy), ended: SUCCEEDED });

    assert.deepEqual(restarted.journal.load().schedule, []);
    assert.equal(statusIn(restarted.feed({ kind: "tick" }, NOW + 60_000)), undefined);
  });
});
