// Jobs that a loop wants and that no manifest can hold: each becomes a failure with a sentence, once, and
// nothing is retried before somebody changes something.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { deployInstall, listAudit } from "@exclave/api";
import { Instant } from "@exclave/core";
import type { ServerContext } from "../context.ts";
import { createLiveEvents } from "../live-events.ts";
import { reconcileReleases } from "../release/release-loop.ts";
import { createMemoryStore } from "../store/memory/memory-store.ts";
import type { InstallRow } from "../store/rows.ts";
import type { Tables } from "../store/store.ts";
import { SOURCES } from "../testing/deployed-world.ts";
import { deployedRow, installFacts, installRow, refNamed, releaseRow } from "../testing/rows.ts";
import { digestNamed, release } from "../testing/scripted-vendor.ts";
import { deployTimed, timedWorld } from "../testing/virtual-clock.ts";
import { emptyComponent } from "./empty-component.ts";
import type { InstallFacts } from "./gather-install.ts";
import { issueSteps } from "./install-jobs.ts";
import { issueSandboxJob } from "./sandbox-jobs.ts";
import { issueWatch } from "./watch-components.ts";

const HOUR_MS = 60 * 60_000;
const LARGE = "x".repeat(200 * 1024);
const APP = `app: crm
inputs:
  - { name: title, required: true }
  - { name: motd, default: ${LARGE} }
components:
  - { name: database, type: command, source: ./database }
`;

test("a component whose job is too large is held with a sentence, and tried once", async (t) => {
  const at = await timedWorld(t);

  let view = await deployTimed(at, APP, SOURCES);
  for (let hours = 0; hours < 3; hours++) view = await at.pass(HOUR_MS);

  const [hold] = view.holds;
  assert.match(hold?.because ?? "", /apply failed \(too_large\): apply of database would be/);
  assert.match(hold?.because ?? "", /its inputs are \d{6} of them; the limit is \d+/);
  assert.match(hold?.endsWhen ?? "", /`exclave install deploy acme` asks for a retry/);
  const { items } = await at.server.client.call(listAudit, { query: { limit: 200 } });
  assert.equal(items.filter(({ action }) => action === "job.not_created").length, 1);

  const smaller = APP.replace(LARGE, "hello");
  await release(at.server, smaller, SOURCES, { channel: "stable" });
  await at.server.client.call(deployInstall, { params: { install: "acme" }, body: {} });
  assert.equal((await at.pass(0)).phase, "settled");
});

test("a release that no assemble job can hold fails with a sentence", async () => {
  const store = createMemoryStore();
  const built = { type: "command", source: null, buildKey: null, job: null, reused: false };
  const components = Array.from({ length: 2_000 }, (_, n) => ({
    ...built,
    name: `c${n}`,
    artifact: refNamed(`c${n}`),
  }));
  const building = releaseRow({ state: "building", digest: null, components });
  await store.transaction((tx) => tx.releases.put(building));
  const wake = { releases() {}, outbox() {}, revoked() {}, allInstalls() {}, install() {} };
  const context: Partial<ServerContext> = { store, now, wake, live: createLiveEvents({ now }) };

  await reconcileReleases(context as ServerContext, () => ({ components: [] }) as never);

  const after = await store.read.releases.get(building.id);
  assert.equal(after?.state, "failed");
  assert.match(
    after?.because ?? "",
    /assemble would be a manifest of \d+ bytes, its materials are/,
  );
});

const now = () => Instant.parse(5_000);

function factsOf(install: InstallRow): InstallFacts {
  return installFacts({ install, sandboxRelease: releaseRow() });
}

async function inStore<Result>(work: (tx: Tables) => Promise<Result>) {
  const store = createMemoryStore();
  const result = await store.transaction(work);
  const jobs = await store.read.jobs.list({ limit: 10 });
  return { result, jobs: jobs.items };
}

describe("without a job", () => {
  const install = installRow({ sandboxConfig: { note: LARGE }, sandboxState: "absent" });
  const because = "test";

  for (const kind of ["setup", "teardown"] as const) {
    test(`a ${kind} that is too large is the sandbox's failure`, async () => {
      const { result, jobs } = await inStore((tx) =>
        issueSandboxJob(tx, { now }, factsOf(install), { kind, because }),
      );

      assert.equal(result.sandboxFailure?.code, "too_large");
      assert.match(result.sandboxFailure?.message ?? "", /of sandbox would be a manifest of/);
      assert.equal(result.sandboxState, "absent");
      assert.deepEqual(jobs, []);
    });
  }

  test("a look at a sandbox that is too large waits for its next turn", async () => {
    const { result, jobs } = await inStore((tx) =>
      issueSandboxJob(tx, { now }, factsOf(install), { kind: "look", because }),
    );

    assert.deepEqual(result.sandboxLook, { at: now(), setups: 0 });
    assert.deepEqual(jobs, []);
  });

  test("a sync that is too large is the sync's failure", async () => {
    const materials = Array.from({ length: 2_000 }, (_, n) => ({
      ...refNamed(`m${n}`),
      name: "m",
    }));
    const key = digestNamed("sync");
    const sync = { kind: "sync", materials, runner: refNamed("runner"), key, because } as const;

    const { result, jobs } = await inStore((tx) =>
      issueSteps(tx, { now }, factsOf(installRow()), [sync]),
    );

    assert.deepEqual([result.syncFailure?.code, result.syncFailure?.key], ["too_large", key]);
    assert.deepEqual(jobs, []);
  });

  test("a status that is too large is asked for again only after its pause", async () => {
    const deployed = deployedRow({ config: { note: LARGE }, effects: { status: "idempotent" } });
    const row = { ...emptyComponent(install.id, "api", "command"), deployed };

    const { result, jobs } = await inStore(async (tx) => {
      await issueWatch(tx, { now }, factsOf(install), row);
      return tx.components.ofInstall(install.id);
    });

    assert.equal(result[0]?.watchAskedAt, now());
    assert.deepEqual(jobs, []);
  });
});
