import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ACME, job, NOW } from "../testing/builders.ts";
import { agentWith, kinds, nameOf, SUCCEEDED, sent, types } from "../testing/core-agent.ts";
import type { AgentEffect } from "./agent-state.ts";

describe("a job that is offered", () => {
  test("is journaled, then acknowledged, then launched (L-2.1)", () => {
    const agent = agentWith();
    agent.welcome();

    const effects = agent.offer(job());

    assert.equal(kinds(effects)[0], "journal");
    assert.deepEqual(types(agent.told()), ["job_accepted"]);
    assert.equal(sent(effects)[0]?.type, "ack");
    const launch = effects.findIndex(({ kind }) => kind === "launch");
    const intent = effects.findIndex(
      (effect) =>
        effect.kind === "journal" &&
        effect.writes.some((write) => write.kind === "job" && write.record.launches === 1),
    );
    assert.ok(intent >= 0 && intent < launch, "the intent is journaled before the launch");
  });

  test("is dropped and acknowledged again when it comes twice", () => {
    const agent = agentWith();
    agent.welcome();
    const manifest = job();
    const envelope = agent.director.seal(manifest);
    const body = { type: "job_offer", job: manifest.id, attempt: 1, envelope } as const;
    agent.command(body);

    const effects = agent.frame({ type: "command", seq: 1, body });

    assert.deepEqual(sent(effects), [{ type: "ack", seq: 1 }]);
    assert.deepEqual(types(agent.told()), ["job_accepted"]);
  });

  test("behind a gap is not taken; what is missing is asked for (L-2.2)", () => {
    const agent = agentWith();
    agent.welcome();
    const manifest = job();
    const envelope = agent.director.seal(manifest);
    const body = { type: "job_offer", job: manifest.id, attempt: 1, envelope } as const;

    const effects = agent.frame({ type: "command", seq: 3, body });

    assert.deepEqual(sent(effects), [{ type: "resend", from: 1 }]);
    assert.equal(agent.state.jobs.size, 0);
  });

  test("waits when as many jobs run as may", () => {
    const agent = agentWith({ rules: { jobsMax: 1 } });
    agent.welcome();
    const first = job("first");
    agent.offer(first);

    const effects = agent.offer(job("second"));

    assert.ok(!kinds(effects).includes("launch"));
    agent.feed({ kind: "launched", name: nameOf(first) });
    const after = agent.feed({ kind: "exited", name: nameOf(first), ended: SUCCEEDED });
    assert.ok(kinds(after).includes("launch"));
  });

  test("is refused while the disk is nearly full, and that is on record", () => {
    const agent = agentWith();
    agent.welcome();
    agent.feed({ kind: "disk", isLow: true });

    const effects = agent.offer(job());

    assert.ok(!kinds(effects).includes("launch"));
    const [event] = agent.told();
    assert.equal(event?.type === "job_rejected" && event.code, "disk_full");
  });

  test("ends as expired when its time passes before it could be launched", () => {
    const agent = agentWith();
    agent.welcome();
    agent.offer(job("sync", { operation: "sync", notAfter: (NOW + 500) as never }));
    agent.feed({ kind: "disconnected" });

    agent.feed({ kind: "tick" }, NOW + 1_000);

    const event = agent.told().at(-1);
    assert.ok(event?.type === "job_ended" && event.outcome.kind === "failed");
    assert.equal(event.outcome.code, "expired");
  });
});

describe("the link", () => {
  test("a hello says how far both sequences are, and which jobs are open", () => {
    const agent = agentWith();
    agent.welcome();
    agent.run(job());
    agent.feed({ kind: "disconnected" });

    const [hello] = agent.frame({ type: "challenge", nonce: "n" });

    assert.ok(hello?.kind === "hello");
    const { downAcked, upHead, upFrom, jobs } = hello.facts;
    assert.deepEqual({ downAcked, upHead, upFrom }, { downAcked: 1, upHead: 2, upFrom: 1 });
    assert.deepEqual(
      jobs.map(({ state }) => state),
      ["running"],
    );
  });

  test("events are sent again from where the server is (L-2.3)", () => {
    const agent = agentWith();
    agent.welcome();
    agent.run(job());
    agent.feed({ kind: "disconnected" });

    const effects = agent.welcome(1);

    assert.deepEqual(
      sent(effects).map((frame) => frame.type === "event" && frame.seq),
      [2],
    );
    assert.equal(agent.journal.load().upAcked, 1);
  });

  test("a server that was set back gets a new journal id instead of a gap", () => {
    const agent = agentWith();
    agent.welcome();
    agent.run(job());
    agent.frame({ type: "ack", seq: 2 });
    agent.feed({ kind: "disconnected" });
    const before = agent.state.journalId;

    const effects = agent.welcome(0);

    assert.ok(kinds(effects).includes("close"));
    const { journalId, upAcked, downAcked } = agent.journal.load();
    assert.notEqual(journalId, before);
    assert.deepEqual({ upAcked, downAcked }, { upAcked: 0, downAcked: 0 });
    assert.deepEqual(types(agent.told()), ["inventory"]);
  });

  test("a server that was set back gets the rest of a log whose job's end it had acknowledged", () => {
    const agent = agentWith();
    agent.welcome();
    const manifest = job();
    const name = nameOf(manifest);
    agent.run(manifest);
    agent.feed({ kind: "spooled", name, bytes: 50 });
    agent.feed({ kind: "exited", name, ended: { ...SUCCEEDED, logBytes: 50 } });
    agent.frame({ type: "ack", seq: 3 });
    agent.feed({ kind: "disconnected" });

    const dropped = agent.welcome(0);
    agent.feed({ kind: "disconnected" });
    const restarted = agent.restart();
    const back = restarted.welcome(0, [{ job: manifest.id as never, attempt: 1, upTo: 40 }]);

    assert.ok(!kinds(dropped).includes("drop_spool"));
    const logs = back.flatMap((effect) => (effect.kind === "send_log" ? [effect.offset] : []));
    assert.deepEqual(logs, [40]);
    const done = restarted.frame({ type: "log_ack", job: manifest.id, attempt: 1, upTo: 50 });
    assert.ok(kinds(done).includes("drop_spool"));
  });

  test("a job that a server which was set back may not know is followed by another inventory", () => {
    const agent = agentWith();
    agent.welcome();
    const destroy = job("destroy", { operation: "destroy" });
    agent.run(destroy);
    agent.frame({ type: "ack", seq: 2 });
    agent.feed({ kind: "disconnected" });
    agent.welcome(0);

    const name = nameOf(destroy);
    const restarted = agent.restart();
    restarted.feed({ kind: "restored", found: [name], fresh: false });
    restarted.feed({ kind: "inspected", name, run: { kind: "running" } });
    restarted.feed({ kind: "exited", name, ended: SUCCEEDED });

    assert.deepEqual(types(restarted.told()), ["inventory", "job_ended", "inventory"]);
    const last = restarted.told().at(-1);
    assert.deepEqual(last?.type === "inventory" && last.destroyed, ["api"]);
  });

  test("logs are sent within credit, in chunks, from where the server has them (L-4.2)", () => {
    const agent = agentWith();
    agent.welcome();
    const manifest = job();
    const name = nameOf(manifest);
    agent.run(manifest);
    const chunks = (effects: readonly AgentEffect[]) =>
      effects.flatMap((effect) =>
        effect.kind === "send_log" ? [[effect.offset, effect.bytes]] : [],
      );

    assert.deepEqual(chunks(agent.feed({ kind: "spooled", name, bytes: 150 })), [
      [0, 56],
      [56, 44],
    ]);
    const acked = agent.frame({ type: "log_ack", job: manifest.id, attempt: 1, upTo: 90 });
    assert.deepEqual(chunks(acked), [[100, 50]]);
    agent.feed({ kind: "disconnected" });
    const again = agent.welcome(undefined, [{ job: manifest.id as never, attempt: 1, upTo: 140 }]);
    assert.deepEqual(chunks(again), [[140, 10]]);
  });

  test("a sync waits for registry access, which only the server gives", () => {
    const agent = agentWith();
    agent.welcome();
    const manifest = job("sync", { operation: "sync" });

    const offered = agent.offer(manifest);
    assert.ok(sent(offered).some(({ type }) => type === "grant_want"));
    assert.ok(!kinds(offered).includes("launch"));
    agent.feed({ kind: "disconnected" });
    const back = agent.welcome();
    assert.ok(
      sent(back).some(({ type }) => type === "grant_want"),
      "it asks again",
    );

    const grant = { registryUrl: "http://vendor.test", token: "t", expiresAt: NOW + 1 };
    const frame = { type: "grant", job: manifest.id, attempt: 1, grant } as const;
    const granted = agent.frame(frame);
    assert.ok(kinds(granted).includes("launch"));
    assert.deepEqual(agent.frame(frame), [], "and a second grant launches nothing");
  });

  test("a refused grant ends the job with the server's reason", () => {
    const agent = agentWith();
    agent.welcome();
    const manifest = job("sync", { operation: "sync" });
    agent.offer(manifest);

    agent.frame({ type: "grant", job: manifest.id, attempt: 1, refused: "not released to acme" });

    const event = agent.told().at(-1);
    assert.ok(event?.type === "job_ended" && event.outcome.kind === "failed");
    assert.deepEqual(
      [event.outcome.code, event.outcome.message],
      ["forbidden", "not released to acme"],
    );
  });

  test("a setup asks for its join string at launch, and no journal ever holds it", () => {
    const agent = agentWith({ rules: { kind: "setup" } });
    agent.welcome();
    const manifest = job("setup", { joinFor: ACME });
    const { id } = manifest;
    const grant = { registryUrl: "http://vendor.test", credential: "c", expiresAt: NOW + 1 };
    agent.offer(manifest);

    const granted = agent.frame({ type: "grant", job: id, attempt: 1, grant });
    const joined = { type: "join", job: id, attempt: 1, joinString: "exclave-join-v1.x" } as const;
    const effects = agent.frame(joined);

    assert.deepEqual(sent(granted), [{ type: "join_want", job: id, attempt: 1 }]);
    const launch = effects.find(({ kind }) => kind === "launch");
    assert.ok(launch?.kind === "launch");
    assert.deepEqual([launch.grant, launch.joinString], [grant, "exclave-join-v1.x"]);
    assert.deepEqual(agent.frame(joined), [], "and a second one launches nothing");
    assert.doesNotMatch(JSON.stringify(agent.journal.load()), /exclave-join/);
  });

  test("a setup whose connection breaks asks for everything again; a refusal ends it", () => {
    const agent = agentWith({ rules: { kind: "setup" } });
    agent.welcome();
    const manifest = job("setup", { joinFor: ACME });
    const { id } = manifest;
    const grant = { registryUrl: "http://vendor.test", credential: "c", expiresAt: NOW + 1 };
    agent.offer(manifest);
    agent.frame({ type: "grant", job: id, attempt: 1, grant });
    agent.feed({ kind: "disconnected" });

    const back = agent.welcome();
    const early = agent.frame({ type: "join", job: id, attempt: 1, joinString: "late" });
    agent.frame({ type: "grant", job: id, attempt: 1, grant });
    agent.frame({ type: "join", job: id, attempt: 1, refused: "it was given already" });

    assert.ok(sent(back).some(({ type }) => type === "grant_want"));
    assert.deepEqual(early, [], "nothing is launched without a grant of this connection");
    const event = agent.told().at(-1);
    assert.ok(event?.type === "job_ended" && event.outcome.kind === "failed");
    assert.deepEqual(
      [event.outcome.code, event.outcome.message],
      ["unavailable", "it was given already"],
    );
  });

  test("a build agent publishes its images once it is linked, and says which", () => {
    const agent = agentWith({ rules: { kind: "build", publishes: ["exclave/runner"] } });
    const [ask] = sent(agent.welcome());
    assert.ok(ask?.type === "grant_want");
    assert.deepEqual(ask.repositories, ["exclave/runner"]);
    const grant = { registryUrl: "http://vendor.test", token: "t", expiresAt: NOW + 1 };

    const effects = agent.frame({ type: "grant", job: ask.job, attempt: ask.attempt, grant });

    assert.deepEqual(kinds(effects), ["publish"]);
    agent.feed({ kind: "publish_failed" });
    assert.equal(sent(agent.feed({ kind: "tick" }))[0]?.type, "grant_want", "a failure is retried");
    agent.frame({ type: "grant", job: ask.job, attempt: ask.attempt, grant });
    agent.feed({ kind: "published", images: [] });
    assert.deepEqual(types(agent.told()), ["images_published"]);
    assert.deepEqual(sent(agent.feed({ kind: "tick" })), []);
  });
});
