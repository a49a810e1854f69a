import assert from "node:assert/strict";
import { test } from "node:test";
import { Instant } from "@exclave/core";
import type { InstallRow } from "../store/rows.ts";
import { AT, deployedRow, installRow, jobRow, refNamed } from "../testing/rows.ts";
import { emptyComponent } from "./empty-component.ts";
import type { InstallFacts } from "./gather-install.ts";
import { planSandbox } from "./plan-sandbox.ts";

const image = (kind: "runner" | "sandbox") =>
  ({ name: kind, kind, ...refNamed(kind), descriptor: null, publishedAt: AT }) as const;

function plan(install: Partial<InstallRow>, facts: Partial<InstallFacts> = {}, now = AT) {
  const usual = {
    components: [],
    indexes: new Map(),
    open: [],
    isAgentOnline: true,
    isSetupOnline: true,
  };
  const images = { sandboxImage: image("sandbox"), runnerImage: image("runner") };
  return planSandbox({ install: installRow(install), ...usual, ...images, ...facts }, now);
}

test("sets up what is not there, once", () => {
  assert.equal(plan({ sandboxState: "absent" }).kind, "setup");
  const open = [jobRow({ about: { kind: "setup" } })];
  const waiting = plan({ sandboxState: "attempted" }, { open });
  assert.match(waiting.kind === "wait" ? waiting.hold.because : "", /setup job j\w+ is queued/);
});

test("is ready when it stands, and gone when it is gone", () => {
  assert.equal(plan({ sandboxState: "present" }).kind, "ready");
  assert.equal(plan({ sandboxState: "destroyed", mode: "destroyed" }).kind, "gone");
  assert.equal(plan({ sandboxState: "absent", mode: "destroyed" }).kind, "gone");
});

test("is taken down last, also when its setup only began", () => {
  const planned = emptyComponent("acme", "api", "command");
  const components = [{ ...planned, attempted: deployedRow() }];
  assert.equal(plan({ mode: "destroyed" }, { components }).kind, "ready");
  assert.equal(plan({ mode: "destroyed" }, { components: [planned] }).kind, "teardown");
  assert.equal(plan({ mode: "destroyed" }).kind, "teardown");
  assert.equal(plan({ mode: "destroyed", sandboxState: "attempted" }).kind, "teardown");
});

test("is not taken down below a job, and says which", () => {
  const logs = jobRow({ operation: "logs", about: { kind: "request" } });

  const waiting = plan({ mode: "destroyed" }, { open: [logs] });
  const away = plan({ mode: "destroyed" }, { open: [logs], isAgentOnline: false });

  const because = `logs job ${logs.id} is queued`;
  assert.deepEqual(waiting, { kind: "wait", hold: { because, endsWhen: "the job ends" } });
  assert.match(away.kind === "wait" ? away.hold.endsWhen : "", /the agent connects again/);
});

test("waits for what it needs, and says for what", () => {
  const because = (facts: Partial<InstallFacts>) => {
    const decided = plan({ sandboxState: "absent" }, facts);
    return decided.kind === "wait" ? decided.hold.because : decided.kind;
  };
  assert.match(because({ isSetupOnline: false }), /setup agent is not connected/);
  assert.match(because({ sandboxImage: undefined as never }), /no image of the sandbox local/);
  assert.match(because({ runnerImage: undefined as never }), /no image of the runner/);
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
