import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { CliProblem } from "../program/problem.ts";
import { type Verdict, waitFor } from "./wait.ts";

const display = { update: () => undefined, note: () => undefined, end: () => undefined };

/** How a wait ends that sees only this, with the time over at once. */
async function ending(verdict: Verdict): Promise<CliProblem> {
  const { signal } = new AbortController();
  const wait = { what: "acme", look: async () => 1, judge: () => verdict, display, signal };
  const ended = waitFor({ ...wait, now: () => 0, timeoutMs: 0 });
  return ended.then(
    () => assert.fail("it is done"),
    (problem: CliProblem) => problem,
  );
}

describe("a wait whose time is over", () => {
  test("says what would end it, where that is somebody's word", async () => {
    const endsWhen = "`exclave install deploy acme --allow-destroy web` says so";

    const { exitCode, message, hint } = await ending({
      kind: "waiting",
      lines: [],
      missing: "web: it is no longer wanted",
      endsWhen,
    });

    assert.equal(exitCode, 5);
    assert.equal(message, "acme is not done after 0 ms: it waits for web: it is no longer wanted");
    assert.equal(hint, `it goes on when ${endsWhen}`);
  });

  test("says to wait longer where nothing else is missing", async () => {
    const { hint } = await ending({ kind: "waiting", lines: [], missing: "web" });

    assert.equal(hint, "it goes on by itself; wait longer with --timeout");
  });
});

test("a wait in vain ends with the reason and with what helps", async () => {
  const endsWhen = "`exclave install destroy acme` asks for a retry";

  const { exitCode, message, hint } = await ending({
    kind: "failed",
    lines: [],
    because: "web could not be destroyed",
    endsWhen,
  });

  assert.deepEqual([exitCode, message], [1, "web could not be destroyed"]);
  assert.equal(hint, `it goes on when ${endsWhen}`);
});
