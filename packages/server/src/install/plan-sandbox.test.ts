import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Instant } from "@exclave/core";
import type { InstallRow } from "../store/rows.ts";
import {
  ACME,
  AT,
  agentRow,
  deployedRow,
  installRow,
  jobRow,
  releaseRow,
} from "../testing/rows.ts";
import { digestNamed } from "../testing/scripted-vendor.ts";
import { emptyComponent } from "./empty-component.ts";
import type { InstallFacts } from "./gather-install.ts";
import { endLook, LOOK_AFTER_MS, planSandbox } from "./plan-sandbox.ts";

function plan(install: Partial<InstallRow>, facts: Partial<InstallFacts> = {}, now = AT) {
  const usual = {
    components: [],
    indexes: new Map(),
    releases: new Map(),
    open: [],
    isAgentOnline: true,
    isSetupOnline: true,
  };
  const sandboxRelease = releaseRow();
  return planSandbox({ install: installRow(install), ...usual, sandboxRelease, ...facts }, now);
}

test("sets up what is not there, once", () => {
  assert.equal(plan({ sandboxState: "absent" }).kind, "setup");
  const open = [jobRow({ purpose: { kind: "setup" } })];
  const waiting = plan({ sandboxState: "attempted" }, { open });
  assert.match(waiting.kind === "wait" ? waiting.hold.because : "", /setup job j\w+ is queued/);
});

test("is ready when it stands, and gone when it is gone", () => {
  assert.equal(plan({ sandboxState: "present" }).kind, "ready");
  assert.equal(plan({ sandboxState: "destroyed", mode: "destroyed" }).kind, "gone");
  assert.equal(plan({ sandboxState: "absent", mode: "destroyed" }).kind, "gone");
});

test("is taken down last, also when its setup only began", () => {
  const planned = emptyComponent(ACME, "api", "command");
  const components = [{ ...planned, attempted: deployedRow() }];
  assert.equal(plan({ mode: "destroyed" }, { components }).kind, "ready");
  assert.equal(plan({ mode: "destroyed" }, { components: [planned] }).kind, "teardown");
  assert.equal(plan({ mode: "destroyed" }).kind, "teardown");
  assert.equal(plan({ mode: "destroyed", sandboxState: "attempted" }).kind, "teardown");
});

test("is taken down although somebody reads a log or runs a debug command", () => {
  const logs = jobRow({ operation: "logs", purpose: { kind: "request" } });

  assert.equal(plan({ mode: "destroyed" }, { open: [logs] }).kind, "teardown");
});

test("is not taken down below a job, and says which", () => {
  const syncPurpose = { kind: "sync" as const, key: digestNamed("key"), materials: [] };
  const sync = jobRow({ operation: "sync", purpose: syncPurpose });

  const waiting = plan({ mode: "destroyed" }, { open: [sync] });
  const away = plan({ mode: "destroyed" }, { open: [sync], isAgentOnline: false });

  const because = `sync job ${sync.id} is queued`;
  assert.deepEqual(waiting, { kind: "wait", hold: { because, endsWhen: "the job ends" } });
  assert.equal(away.kind === "wait" && away.hold.command, "exclave install setup acme");
});

test("of an install that is to be destroyed is set up again where its agent is gone", () => {
  const components = [{ ...emptyComponent(ACME, "api", "command"), deployed: deployedRow() }];
  const asked = { mode: "destroyed", setupWanted: "a person asked for it" } as const;

  assert.equal(plan(asked, { components, isAgentOnline: false }).kind, "setup");
  assert.equal(plan(asked, { components }).kind, "ready");
  assert.equal(plan(asked).kind, "teardown");
});

test("waits for what it needs, and says for what", () => {
  const because = (facts: Partial<InstallFacts>) => {
    const decided = plan({ sandboxState: "absent" }, facts);
    return decided.kind === "wait" ? decided.hold.because : decided.kind;
  };
  assert.match(because({ isSetupOnline: false }), /setup agent is not connected/);
  assert.match(
    because({ sandboxRelease: undefined as never }),
    /channel stable of crm has no release/,
  );
  const without = releaseRow({ sandboxes: [] });
  assert.match(because({ sandboxRelease: without }), /made without the sandbox local/);
});

test("tries again by the failure's own rule", () => {
  const sandboxFailure = { code: "unavailable", message: "no", at: AT, attempts: 1 } as const;
  const failed = { sandboxState: "attempted", sandboxFailure } as const;

  const soon = plan(failed);

  assert.equal(soon.kind === "wait" && soon.hold.until, AT + 2_000);
  assert.equal(plan(failed, {}, Instant.parse(AT + 2_000)).kind, "setup");
});

test("names the command that retries what failed for good", () => {
  const sandboxFailure = { code: "invalid", message: "no", at: AT, attempts: 1 } as const;
  const ends = (mode: InstallRow["mode"]) => {
    const decided = plan({ sandboxState: "attempted", sandboxFailure, mode });
    return decided.kind === "wait" ? decided.hold.endsWhen : decided.kind;
  };

  assert.equal(ends("present"), "`exclave install deploy acme` asks for a retry");
  assert.equal(ends("destroyed"), "`exclave install destroy acme` asks for a retry");
});

test("is set up once more when somebody asked for it, and says why", () => {
  const asked = plan({ setupWanted: "a person asked for it: the key is gone" });

  assert.deepEqual(asked, { kind: "setup", because: "a person asked for it: the key is gone" });
  const waiting = plan({ setupWanted: "x" }, { isSetupOnline: false });
  assert.equal(waiting.kind, "wait");
});

describe("a sandbox whose agent is gone", () => {
  const away = { isAgentOnline: false, agent: agentRow({ seenAt: AT, everConnected: true }) };
  const later = (ms: number) => Instant.parse(AT + ms);

  test("is asked why after a while, and not while the setup agent is away or the agent is there", () => {
    assert.equal(plan({}, away, later(LOOK_AFTER_MS - 1)).kind, "ready");
    assert.equal(plan({}, away, later(LOOK_AFTER_MS)).kind, "look");
    assert.equal(plan({}, { ...away, isSetupOnline: false }, later(LOOK_AFTER_MS)).kind, "ready");
    assert.equal(plan({}, { ...away, isAgentOnline: true }, later(LOOK_AFTER_MS)).kind, "ready");
  });

  test("is set up again when it says that something is broken, and left alone when it is well", () => {
    const at = later(LOOK_AFTER_MS);
    const look = (health: "healthy" | "degraded" | "missing" | "unknown") =>
      endLook(installRow(), { at, seen: { health, because: "the supervisor is not running" } });

    assert.match(look("degraded").setupWanted ?? "", /the supervisor is not running/);
    assert.match(look("missing").setupWanted ?? "", /its agent is gone/);
    assert.equal(look("healthy").setupWanted, null);
    assert.equal(look("unknown").setupWanted, null);
    assert.equal(endLook(installRow(), { at }).setupWanted, null);
  });

  test("is looked at again after a pause, and set up three times in a row at most", () => {
    const sandboxLook = { at: later(LOOK_AFTER_MS), setups: 2 };
    const soon = plan({ sandboxLook }, away, later(LOOK_AFTER_MS + 60_000));
    const again = plan({ sandboxLook }, away, later(LOOK_AFTER_MS + 300_000));
    const often = plan({ sandboxLook: { ...sandboxLook, setups: 3 } }, away, later(9_000_000));

    assert.deepEqual([soon.kind, again.kind, often.kind], ["ready", "look", "ready"]);
    const back = { ...away, agent: agentRow({ seenAt: later(500_000), everConnected: true }) };
    const anew = { ...sandboxLook, setups: 3 };
    assert.equal(plan({ sandboxLook: anew }, back, later(9_000_000)).kind, "look");
  });
});
