// What an agent's machine keeps when the agent dies: its journal and vault, what it spooled, who it is,
// the jobs it started, and for an install its own registry and what was really deployed there.

import {
  createMemoryJournal,
  createMemoryVault,
  type Identity,
  type JoiningKeys,
  type Journal,
  type SpooledFile,
  type Vault,
} from "@exclave/agent/simulation";
import type { AgentEvent } from "@exclave/api";
import type { JobName } from "@exclave/core";
import type { SimulatedRuntime, Started } from "./simulated-runtime.ts";

export interface Home {
  readonly kind: "setup" | "install";
  /** For traces. */
  readonly name: string;
  readonly audience: string;
  joinString: string;
  identity?: Identity;
  /** On disk before the server hears of them. */
  joiningKeys?: JoiningKeys;
  journal: Journal;
  journals: number;
  readonly vault: Vault;
  readonly spooled: Map<JobName, SpooledFile>;
  /** What lies in its registry, by artifact key. */
  readonly registry: Set<string>;
  /** What is really deployed, by component: which artifact. */
  readonly deployed: Map<string, string>;
  runtime: SimulatedRuntime;
  /** The sandbox was taken down. */
  isGone: boolean;
  isDiskFull: boolean;
  clockOffsetMs: number;
  /** What a crash right now would leave of both sequences. */
  readonly durable: { downAcked: number; upHead: number };
  /** Every event that was ever journaled here, in order. */
  readonly journaled: AgentEvent[];
  /** Its sequences were begun anew. */
  isRestarted: boolean;
  /** The one of the same install that was taken down before this one was made. */
  readonly before: Home | undefined;
}

export function createHome(
  about: Pick<Home, "kind" | "name" | "audience" | "joinString" | "runtime" | "before">,
  number: number,
): Home {
  return {
    ...about,
    journal: createMemoryJournal({ journalId: `${about.name} ${number}.1` }),
    journals: 1,
    vault: createMemoryVault(),
    spooled: new Map(),
    registry: new Set(),
    deployed: new Map(),
    isGone: false,
    isDiskFull: false,
    clockOffsetMs: 0,
    durable: { downAcked: 0, upHead: 0 },
    journaled: [],
    isRestarted: false,
  };
}

/** A job as it really ran, here or in the sandbox that was here before. */
export function startedIn(home: Home | undefined, name: JobName): Started | undefined {
  return home?.runtime.history.get(name) ?? (home?.before && startedIn(home.before, name));
}

/** The journal's disk is gone; the vault has a place of its own. */
export function loseJournal(home: Home): void {
  home.journals++;
  home.journal = createMemoryJournal({ journalId: `${home.name} ${home.journals}` });
  Object.assign(home.durable, { downAcked: 0, upHead: 0 });
}
