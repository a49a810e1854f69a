// The two loops that carry what is wanted to its end: one over installs, one over releases.

import { setImmediate as nextTurn } from "node:timers/promises";
import type { Timers } from "@exclave/api";
import { InstallId } from "@exclave/core";
import type { ServerContext } from "./context.ts";
import { reconcileInstall } from "./install/install-loop.ts";
import type { Fleet } from "./peers/fleet.ts";
import { createReconcileLoop } from "./reconcile-loop.ts";
import { reconcileReleases } from "./release/release-loop.ts";
import { renewStatements } from "./release/renew-statements.ts";

const RELEASES = "releases";
/** Of installs that are marked in one turn of the event loop. */
const PAGE = 500;

/** Marks what is this server's to do, and nothing else. */
export interface ServerLoops {
  markInstall(id: string): void;
  markAll(): void;
  /** Resolves when all of them are marked. */
  markedAll(): Promise<void>;
  markReleases(): void;
  backlog(loop: "installs" | "releases"): number;
  stop(): Promise<void>;
}

export function createServerLoops(
  context: () => ServerContext,
  options: Pick<ServerContext, "now" | "log"> & {
    readonly timers: Timers;
    /** Which of them are this server's. */
    readonly fleet: () => Pick<Fleet, "plans" | "does">;
  },
): ServerLoops {
  const { now, timers, log, fleet } = options;
  const releases = createReconcileLoop({
    now,
    timers,
    log,
    reconcile: () =>
      context().metrics.reconciling("releases", async () => {
        if (!fleet().does(RELEASES)) return;
        await reconcileReleases(context(), context().readApp);
        const until = await renewStatements(context(), context().readApp);
        if (until !== undefined) releases.markAt(RELEASES, until);
      }),
  });
  const installs = createReconcileLoop({
    now,
    timers,
    log,
    reconcile: (id) =>
      context().metrics.reconciling("installs", async () => {
        // It may have become another server's since it was marked: that one was told of the change.
        if (!fleet().plans(id)) return;
        const until = await reconcileInstall(context(), InstallId.parse(id));
        if (until !== undefined) installs.markAt(id, until);
      }),
  });

  return {
    markInstall(id) {
      if (fleet().plans(id)) installs.mark(id);
    },
    markAll: () => void markedAll(),
    markedAll,
    markReleases() {
      if (fleet().does(RELEASES)) releases.mark(RELEASES);
    },
    backlog: (loop) => (loop === "installs" ? installs : releases).backlog(),
    stop: async () => void (await Promise.all([installs.stop(), releases.stop()])),
  };

  async function markedAll(): Promise<void> {
    let cursor: string | undefined;
    try {
      do {
        const { items, next } = await context().store.read.installs.keys({ limit: PAGE, cursor });
        for (const id of items) if (fleet().plans(id)) installs.mark(id);
        cursor = next ?? undefined;
        // However many there are, sockets are read in between.
        if (cursor !== undefined) await nextTurn();
      } while (cursor !== undefined);
    } catch (reason) {
      log.error({ reason }, "the installs could not be looked at");
    }
  }
}
