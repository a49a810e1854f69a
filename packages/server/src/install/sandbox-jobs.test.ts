import assert from "node:assert/strict";
import { test } from "node:test";
import { Instant } from "@exclave/core";
import { createMemoryStore } from "../store/memory/memory-store.ts";
import { installFacts, installRow, refNamed, releaseRow } from "../testing/rows.ts";
import { issueSandboxJob } from "./sandbox-jobs.ts";

const EFFECTS = { apply: "idempotent", destroy: "idempotent" } as const;

/** What the setup agent is directed to do. */
async function directed(kind: "setup" | "teardown"): Promise<{ readonly rollback?: boolean }> {
  const image = refNamed("exclave/sandboxes/local");
  const facts = installFacts({
    install: installRow({ sandboxState: kind === "setup" ? "absent" : "present" }),
    sandboxRelease: releaseRow({ sandboxes: [{ type: "local", image, effects: EFFECTS }] }),
  });
  const store = createMemoryStore();
  const now = () => Instant.parse(5_000);
  await store.transaction((tx) => issueSandboxJob(tx, { now }, facts, { kind, because: "test" }));
  const [row] = await store.read.outbox.waiting("setup", 1);
  assert.ok(row && "payload" in row.body);
  return JSON.parse(Buffer.from(row.body.payload, "base64").toString()) as { rollback?: boolean };
}

test("a teardown goes by the release of its setup, whatever a server that was set back has forgotten", async () => {
  assert.equal((await directed("teardown")).rollback, true);
  assert.equal((await directed("setup")).rollback, undefined);
});
