import assert from "node:assert/strict";
import { test } from "node:test";
import { Instant, newsMs } from "@exclave/core";
import { ACME, AT, deployedRow, installRow } from "../testing/rows.ts";
import { emptyComponent } from "./empty-component.ts";
import type { InstallFacts } from "./gather-install.ts";
import { planWatches } from "./watch-components.ts";

const EVERY_MS = 30_000;

function facts(watchAskedAt: number | null): InstallFacts {
  const deployed = deployedRow({ effects: { status: "idempotent" }, statusEveryMs: EVERY_MS });
  const asked = watchAskedAt === null ? null : Instant.parse(watchAskedAt);
  const row = { ...emptyComponent(ACME, "api", "command"), deployed, watchAskedAt: asked };
  return {
    install: installRow(),
    components: [row],
    indexes: new Map(),
    releases: new Map(),
    open: [],
    isAgentOnline: true,
    watch: { since: AT, looks: new Map() },
    isSetupOnline: true,
    serverStartedAt: AT,
  };
}

test("a component nobody looks at is asked for, and again after a while", () => {
  const now = Instant.parse(AT + newsMs(EVERY_MS) + 1);

  assert.equal(planWatches(facts(null), now).due.length, 1);
  assert.equal(planWatches(facts(now - 1), now).due.length, 0);
  assert.equal(planWatches(facts(now - newsMs(EVERY_MS)), now).due.length, 1);
});

test("one that was asked for by a clock ahead of time is asked for again", () => {
  const now = Instant.parse(AT + newsMs(EVERY_MS) + 1);

  assert.equal(planWatches(facts(now + 3_600_000), now).due.length, 1);
});
