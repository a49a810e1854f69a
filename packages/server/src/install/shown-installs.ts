// What lists show of installs: the view made of the facts and the decision of the last reconciliation, kept with its
// age. A list reads it and plans nothing. Views are made and written some time after they were noted, many together: of
// several reconciliations in between the last one counts, and one that is lost with a crash is noted again at the start.

import { setImmediate } from "node:timers/promises";
import { type CallOff, InstallView, type Timers, timeOf } from "@exclave/api";
import type { InstallId, Instant } from "@exclave/core";
import type { ServerContext } from "../context.ts";
import type { InstallRow, ShownInstallRow } from "../store/rows.ts";
import type { InstallFacts } from "./gather-install.ts";
import type { InstallDecision } from "./install-decision.ts";
import { viewInstall } from "./install-view.ts";

export interface ShownInstalls {
  /** What was just decided, and from what. */
  note(facts: InstallFacts, decision: InstallDecision, now: Instant): void;
  /** As it was decided last; of one that was never, what its row says. */
  of(install: InstallRow): Promise<InstallView>;
  /** Writes what was noted, and takes no more. */
  stop(): Promise<void>;
}

interface Noted {
  readonly facts: InstallFacts;
  readonly decision: InstallDecision;
  readonly now: Instant;
}

const WRITE_AFTER_MS = 300;
const ROWS_AT_ONCE = 100;

export function createShownInstalls({
  context,
  timers,
}: {
  readonly context: () => Pick<ServerContext, "store" | "presence" | "log">;
  readonly timers: Pick<Timers, "after">;
}): ShownInstalls {
  const noted = new Map<InstallId, Noted>();
  let later: CallOff | undefined;
  let writing = Promise.resolve();
  let isStopped = false;

  return { note, of, stop };

  function note(facts: InstallFacts, decision: InstallDecision, now: Instant): void {
    if (isStopped) return;
    noted.set(facts.install.id, { facts, decision, now });
    later ??= timers.after(WRITE_AFTER_MS, () => {
      later = undefined;
      writing = writing.then(writeAll);
    });
  }

  async function of(install: InstallRow): Promise<InstallView> {
    const { store, presence } = context();
    const fresh = noted.get(install.id);
    const row = fresh ? rowOf(fresh) : await store.read.shownInstalls.get(install.id);
    const kept = row && InstallView.safeParse(row.view).data;
    const view = kept ?? undecided(install);
    // Who is connected is known now.
    const wasEver = view.agent.status === "never" ? "never" : "offline";
    const status = presence.isOnline(install.id) ? "online" : wasEver;
    const asOf = row ? timeOf(row.at) : null;
    return { ...view, agent: { ...view.agent, status }, asOf };
  }

  async function stop(): Promise<void> {
    isStopped = true;
    later?.();
    writing = writing.then(writeAll);
    await writing;
  }

  async function writeAll(): Promise<void> {
    try {
      while (noted.size > 0) {
        const some = [...noted].slice(0, ROWS_AT_ONCE);
        await write(some.map(([, one]) => one));
        // One that was noted again meanwhile waits for its next turn.
        for (const [id, one] of some) if (noted.get(id) === one) noted.delete(id);
        await setImmediate();
      }
    } catch (reason) {
      noted.clear();
      context().log.warn({ reason }, "what is shown of installs could not be kept");
    }
  }

  async function write(some: readonly Noted[]): Promise<void> {
    const rows = some.map(rowOf);
    await context().store.transaction(async (tx) => {
      for (const row of rows) {
        // It may have been forgotten meanwhile.
        if (await tx.installs.get(row.install)) await tx.shownInstalls.put(row);
      }
    });
  }
}

function rowOf({ facts, decision, now }: Noted): ShownInstallRow {
  return { install: facts.install.id, at: now, view: viewInstall(facts, now, decision) };
}

/** The loop has not come to it yet. */
function undecided(install: InstallRow): InstallView {
  return {
    id: install.id,
    name: install.name,
    app: install.appName,
    appId: install.app,
    channel: install.channel,
    release: null,
    version: null,
    health: "unknown",
    phase: install.mode === "destroyed" ? "destroying" : "setting-up",
    sandbox: install.sandbox,
    sandboxConfig: install.sandboxConfig,
    agent: { id: null, status: "never", since: null },
    inputs: install.inputs,
    components: [],
    holds: [],
    alarms: [],
    createdAt: timeOf(install.createdAt),
  };
}
