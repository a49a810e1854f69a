// The planner and the loop around it over as many installs as wanted. Each is decided on a row of its own, which is made
// when its turn comes, as it would be read.

import { join } from "node:path";
import { createSystemTimers } from "@exclave/api";
import { InstallId, Instant } from "@exclave/core";
import { pino } from "pino";
import { newInstallId } from "../../identifiers.ts";
import { decideInstall } from "../../install/install-decision.ts";
import { planWatches } from "../../install/watch-components.ts";
import { createReconcileLoop } from "../../reconcile-loop.ts";
import { createAppReader } from "../../release/app-of-release.ts";
import { openSqliteStore } from "../../store/sqlite/sqlite-store.ts";
import { deployedComponents, factsOf, makeReleases, seededInstall } from "./seed-fleet.ts";

export interface Planned {
  readonly tookMs: number;
  readonly processorMs: number;
  /** More than before, at the moment when all are marked and none is decided. */
  readonly heapBytes: number;
  /** Those that something is to be done for. */
  readonly withSteps: number;
}

export interface PlannerScale {
  /** Installs that are deployed and at rest, and have the newest release. */
  plan(installs: number): Promise<Planned>;
}

export async function openPlannerScale(data: string): Promise<PlannerScale> {
  await makeReleases(data);
  const store = openSqliteStore(join(data, "exclave.db"));
  const release = (await store.read.releases.all()).find(({ version }) => version === "1");
  await store.close();
  if (!release) throw new Error("there is no release to plan");
  const app = createAppReader()(release);
  const template = seededInstall(release, 0);
  const components = deployedComponents(template, release, app);

  return { plan };

  async function plan(installs: number): Promise<Planned> {
    const done = Promise.withResolvers<void>();
    let left = installs;
    let withSteps = 0;
    globalThis.gc?.();
    const heapBefore = process.memoryUsage().heapUsed;
    const spentBefore = process.cpuUsage();
    const began = performance.now();
    const loop = createReconcileLoop({
      now: Date.now,
      timers: createSystemTimers(),
      log: pino({ level: "silent" }),
      async reconcile(id) {
        const install = { ...template, id: InstallId.parse(id) };
        const own = components.map((row) => ({ ...row, install: install.id }));
        const facts = factsOf(install, release!, app, own);
        const now = Instant.parse(Date.now());
        if (decideInstall(facts, now).steps.length > 0) withSteps++;
        planWatches(facts, now);
        if (--left === 0) done.resolve();
      },
    });
    for (let n = 0; n < installs; n++) loop.mark(newInstallId());
    globalThis.gc?.();
    const heapBytes = process.memoryUsage().heapUsed - heapBefore;
    await done.promise;
    await loop.stop();
    const { user, system } = process.cpuUsage(spentBefore);
    const processorMs = (user + system) / 1_000;
    return { tookMs: performance.now() - began, processorMs, heapBytes, withSteps };
  }
}
