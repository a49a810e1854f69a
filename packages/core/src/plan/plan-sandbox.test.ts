import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { sandboxKey } from "../consequence/install-end.ts";
import { digestOf } from "../encoding/sha256.ts";
import { Instant } from "../ids.ts";
import { now as AT } from "./install.testing.ts";
import {
  endLook,
  LOOK_AFTER_MS,
  nextLookAt,
  planSandbox,
  type SandboxFacts,
  type SandboxRecord,
  setupAgain,
  WORD_WITHIN_MS,
} from "./plan-sandbox.ts";

const RELEASE = {
  id: "r1",
  version: "1",
  appName: "crm",
  digest: digestOf("index"),
  sandboxes: [{ type: "local" }],
};

function installed(changes: Partial<SandboxRecord> = {}): SandboxRecord {
  return {
    name: "acme",
    appName: "crm",
    channel: "stable",
    mode: "present",
    sandbox: "local",
    sandboxState: "present",
    sandboxFailure: null,
    setupWanted: null,
    sandboxLook: null,
    setUpAt: null,
    ...changes,
  };
}

function openJob(kind: string, operation = kind): SandboxFacts["open"][number] {
  return { id: "jaaa", operation, purpose: { kind }, state: { status: "queued", since: AT } };
}

function factsOf(install: Partial<SandboxRecord>, facts: Partial<SandboxFacts> = {}): SandboxFacts {
  return {
    install: installed(install),
    components: [],
    open: [],
    isAgentOnline: true,
    isSetupOnline: true,
    sandboxRelease: RELEASE,
    ...facts,
  };
}

function plan(install: Partial<SandboxRecord>, facts: Partial<SandboxFacts> = {}, now = AT) {
  return planSandbox(factsOf(install, facts), now);
}

test("sets up what is not there, once", () => {
  assert.equal(plan({ sandboxState: "absent" }).kind, "setup");
  const open = [openJob("setup")];
  const waiting = plan({ sandboxState: "attempted" }, { open });
  assert.match(waiting.kind === "wait" ? waiting.hold.because : "", /setup job j\w+ is queued/);
});

test("is ready when it stands, and gone when it is gone", () => {
  assert.equal(plan({ sandboxState: "present" }).kind, "ready");
  assert.equal(plan({ sandboxState: "destroyed", mode: "destroyed" }).kind, "gone");
  assert.equal(plan({ sandboxState: "absent", mode: "destroyed" }).kind, "gone");
});

test("is taken down last, also when its setup only began", () => {
  const planned = { deployed: null, attempted: null };
  const components = [{ ...planned, attempted: {} }];
  assert.equal(plan({ mode: "destroyed" }, { components }).kind, "ready");
  assert.equal(plan({ mode: "destroyed" }, { components: [planned] }).kind, "teardown");
  assert.equal(plan({ mode: "destroyed" }).kind, "teardown");
  assert.equal(plan({ mode: "destroyed", sandboxState: "attempted" }).kind, "teardown");
});

test("is taken down although somebody reads a log or runs a debug command", () => {
  const logs = openJob("request", "logs");

  assert.equal(plan({ mode: "destroyed" }, { open: [logs] }).kind, "teardown");
});

test("is not taken down below a job, and says which", () => {
  const sync = openJob("sync");

  const waiting = plan({ mode: "destroyed" }, { open: [sync] });
  const away = plan({ mode: "destroyed" }, { open: [sync], isAgentOnline: false });

  const because = `sync job ${sync.id} is queued`;
  assert.deepEqual(waiting, { kind: "wait", hold: { because, endsWhen: "the job ends" } });
  assert.equal(away.kind === "wait" && away.hold.command, "exclave install setup acme");
});

test("of an install that is to be destroyed is set up again where its agent is gone", () => {
  const components = [{ deployed: {}, attempted: null }];
  const asked = { mode: "destroyed", setupWanted: "a person asked for it" } as const;

  assert.equal(plan(asked, { components, isAgentOnline: false }).kind, "setup");
  assert.equal(plan(asked, { components }).kind, "ready");
  assert.equal(plan(asked).kind, "teardown");
});

test("is not taken down before an agent that knows more than the server has told what is there", () => {
  const agent = { seenAt: AT, everConnected: true, isInventoryWanted: true };
  const told = { ...agent, isInventoryWanted: false };

  const untold = plan({ mode: "destroyed" }, { agent, isAgentOnline: false });

  assert.equal(untold.kind === "wait" && untold.hold.command, "exclave install setup acme");
  assert.equal(plan({ mode: "destroyed" }, { agent: told, isAgentOnline: false }).kind, "teardown");
});

test("is not taken down by a server that was just started before its agent could have come back", () => {
  const serverStartedAt = AT;
  const agent = { seenAt: Instant.parse(AT - 1), everConnected: true };
  const away = { agent, isAgentOnline: false, serverStartedAt };
  const at = (ms: number, facts: Partial<SandboxFacts> = {}) =>
    plan({ mode: "destroyed" }, { ...away, ...facts }, Instant.parse(AT + ms));

  const waiting = at(1_000);

  assert.equal(waiting.kind === "wait" && waiting.hold.until, AT + WORD_WITHIN_MS);
  assert.equal(at(WORD_WITHIN_MS).kind, "teardown");
  assert.equal(at(1_000, { isAgentOnline: true }).kind, "teardown");
  assert.equal(at(2_000, { agent: { ...agent, seenAt: Instant.parse(AT + 1) } }).kind, "teardown");
  assert.equal(at(-1, { agent: { ...agent, seenAt: AT } }).kind, "teardown", "of a clock set back");
  assert.equal(at(1_000, { agent: { ...agent, everConnected: false } }).kind, "teardown");
});

test("waits for what it needs, and says for what", () => {
  const because = (facts: Partial<SandboxFacts>) => {
    const decided = plan({ sandboxState: "absent" }, facts);
    return decided.kind === "wait" ? decided.hold.because : decided.kind;
  };
  assert.match(because({ isSetupOnline: false }), /setup agent is not connected/);
  assert.match(
    because({ sandboxRelease: undefined as never }),
    /channel stable of crm has no release/,
  );
  const without = { ...RELEASE, sandboxes: [] };
  assert.match(because({ sandboxRelease: without }), /made without the sandbox local/);
});

test("is retried by the failure's own rule", () => {
  const sandboxFailure = { code: "unavailable", message: "no", at: AT, attempts: 1 } as const;
  const failed = { sandboxState: "attempted", sandboxFailure } as const;

  const soon = plan(failed);

  assert.equal(soon.kind === "wait" && soon.hold.until, AT + 2_000);
  assert.equal(plan(failed, {}, Instant.parse(AT + 2_000)).kind, "setup");
});

test("names the command that retries what failed for good", () => {
  const sandboxFailure = { code: "invalid", message: "no", at: AT, attempts: 1 } as const;
  const ends = (mode: SandboxRecord["mode"]) => {
    const decided = plan({ sandboxState: "attempted", sandboxFailure, mode });
    return decided.kind === "wait" ? decided.hold.endsWhen : decided.kind;
  };

  assert.equal(ends("present"), "`exclave install deploy acme` asks for a retry");
  assert.equal(ends("destroyed"), "`exclave install destroy acme` asks for a retry");
});

test("that failed from one release is set up at once from another", () => {
  const failure = { code: "downgrade", message: "older", at: AT, attempts: 1 } as const;
  const sandboxFailure = { ...failure, key: sandboxKey(RELEASE.id) };
  const absent = { sandboxState: "attempted", sandboxFailure } as const;

  const held = plan(absent);
  const newer = plan(absent, { sandboxRelease: { ...RELEASE, id: "r2" } });

  assert.ok(held.kind === "wait" && /newer/.test(held.hold.endsWhen), JSON.stringify(held));
  assert.equal(newer.kind, "setup");
});

test("is set up once more when somebody asked for it, and says why", () => {
  const asked = plan({ setupWanted: "a person asked for it: the key is gone" });

  assert.deepEqual(asked, { kind: "setup", because: "a person asked for it: the key is gone" });
  const waiting = plan({ setupWanted: "x" }, { isSetupOnline: false });
  assert.equal(waiting.kind, "wait");
});

describe("a sandbox whose agent is gone", () => {
  const away = { isAgentOnline: false, agent: { seenAt: AT, everConnected: true } };
  const later = (ms: number) => Instant.parse(AT + ms);

  test("is asked why after a while, and not while the setup agent is away or the agent is there", () => {
    assert.equal(plan({}, away, later(LOOK_AFTER_MS - 1)).kind, "ready");
    assert.equal(plan({}, away, later(LOOK_AFTER_MS)).kind, "look");
    assert.equal(plan({}, { ...away, isSetupOnline: false }, later(LOOK_AFTER_MS)).kind, "ready");
    assert.equal(plan({}, { ...away, isAgentOnline: true }, later(LOOK_AFTER_MS)).kind, "ready");
  });

  test("is asked at once where a wrong clock wrote down when its agent was last seen", () => {
    const ahead = { ...away, agent: { ...away.agent, seenAt: later(9_000_000) } };

    assert.equal(plan({}, ahead, later(0)).kind, "look");
  });

  test("is set up again with a growing pause when its agent never came, three times at most", () => {
    const never = { isAgentOnline: false };
    const setUpAt = Instant.parse(AT);
    const look = (setups: number) => ({ setUpAt, sandboxLook: { at: setUpAt, setups } });

    assert.equal(plan({ setUpAt }, never, later(LOOK_AFTER_MS - 1)).kind, "ready");
    assert.equal(plan({ setUpAt }, never, later(LOOK_AFTER_MS)).kind, "setup");
    assert.equal(plan(look(1), never, later(LOOK_AFTER_MS)).kind, "ready");
    assert.equal(plan(look(1), never, later(2 * LOOK_AFTER_MS)).kind, "setup");
    assert.equal(plan(look(3), never, later(99 * LOOK_AFTER_MS)).kind, "ready");
    const before = { ...never, agent: { seenAt: setUpAt, everConnected: false } };
    assert.equal(plan({ setUpAt }, before, later(LOOK_AFTER_MS)).kind, "setup");
  });

  test("lets its agent join anew when it is set up again by itself, and counts that", () => {
    const at = Instant.parse(AT);

    const again = setupAgain(installed({ setUpAt: at }), at);
    const first = setupAgain(installed({ sandboxState: "absent" }), at);

    assert.deepEqual(again, { isAgain: true, sandboxLook: { at, setups: 1 } });
    assert.deepEqual(first, { isAgain: false, sandboxLook: null });
  });

  test("is set up again when it says that something is broken, and left alone when it is well", () => {
    const at = later(LOOK_AFTER_MS);
    const look = (health: "healthy" | "degraded" | "missing" | "unknown") =>
      endLook(installed(), { at, seen: { health, because: "the supervisor is not running" } });

    assert.match(look("degraded").setupWanted ?? "", /the supervisor is not running/);
    assert.match(look("missing").setupWanted ?? "", /its agent is gone/);
    assert.equal(look("healthy").setupWanted, null);
    assert.equal(look("unknown").setupWanted, null);
    assert.equal(endLook(installed(), { at }).setupWanted, null);
  });

  test("is looked at again after a pause, and set up three times in a row at most", () => {
    const sandboxLook = { at: later(LOOK_AFTER_MS), setups: 2 };
    const soon = plan({ sandboxLook }, away, later(LOOK_AFTER_MS + 60_000));
    const again = plan({ sandboxLook }, away, later(LOOK_AFTER_MS + 300_000));
    const often = plan({ sandboxLook: { ...sandboxLook, setups: 3 } }, away, later(9_000_000));

    assert.deepEqual([soon.kind, again.kind, often.kind], ["ready", "look", "ready"]);
    const back = { ...away, agent: { seenAt: later(500_000), everConnected: true } };
    const anew = { ...sandboxLook, setups: 3 };
    assert.equal(plan({ sandboxLook: anew }, back, later(9_000_000)).kind, "look");
  });
});

test("whatever is known, a sandbox is never worked at by two jobs, and never without the setup agent", () => {
  const open = fc.subarray(["setup", "teardown", "sandbox-status", "sync", "apply", "request"]);
  const state = fc.constantFrom("absent", "attempted", "present", "destroyed");
  const mode = fc.constantFrom("present", "destroyed");
  const there = fc.boolean();
  const agent = fc.option(fc.record({ seenAt: fc.nat({ max: AT }), everConnected: fc.boolean() }));
  const flags = fc.record({ isAgentOnline: fc.boolean(), isSetupOnline: fc.boolean() });
  const wanted = fc.option(fc.constant("somebody asked for it"));
  fc.assert(
    fc.property(open, state, mode, there, agent, flags, wanted, (...drawn) => {
      const [kinds, sandboxState, mode, isThere, agent, online, setupWanted] = drawn;
      const components = [{ deployed: isThere ? {} : null, attempted: null }];
      const seen = agent && { ...agent, seenAt: Instant.parse(agent.seenAt) };
      const jobs = kinds.map((kind) => openJob(kind));
      const facts = { components, open: jobs, ...online, ...(seen ? { agent: seen } : {}) };
      const decided = plan({ sandboxState, mode, setupWanted }, facts);

      const isWork = ["setup", "teardown", "look"].includes(decided.kind);
      const isBusy = kinds.some((kind) => ["setup", "teardown", "sandbox-status"].includes(kind));
      assert.ok(!(isWork && isBusy), "a second job for one sandbox");
      assert.ok(!isWork || online.isSetupOnline, "work for a setup agent that is away");
      if (decided.kind === "teardown") {
        assert.equal(mode, "destroyed", "takes down what is wanted");
        assert.ok(!isThere, "takes a sandbox down below its components");
        assert.ok(
          kinds.every((kind) => kind === "request"),
          "takes a sandbox down below a job",
        );
      }
      if (decided.kind === "setup" && mode === "destroyed") {
        const isNeeded = isThere || kinds.some((kind) => kind !== "request");
        assert.ok(isNeeded && !online.isAgentOnline, "sets up what is to go, for nothing");
      }
      if (decided.kind === "wait") assert.ok(decided.hold.endsWhen.length > 0);
      if (decided.kind === "look") {
        const dueAt = nextLookAt(factsOf({ sandboxState, mode, setupWanted }, facts));
        assert.ok(dueAt !== undefined && dueAt <= AT, "a look before it is due");
      }
    }),
  );
});
