// The server's disk: every commit is looked at as it happens. Which event of which journal it took, and
// that what has ended stays as it ended.

import { isSettled } from "@exclave/core";
import type { AgentRow, JobRow, MemoryData, MemoryDisk } from "@exclave/server/simulation";
import { must, type World } from "./world.ts";

export interface Arrivals {
  /** Events that were committed, by journal and in order, as they came over the network. */
  readonly taken: ReadonlyMap<string, readonly string[]>;
  /** The server hears this: it may be what it commits next. */
  heard(audience: string, data: string): void;
}

export interface WatchedDisk extends MemoryDisk {
  readonly arrivals: Arrivals;
  /** An older backup was restored: what came after it was taken is forgotten. */
  readonly isSetBack: boolean;
  restore(backup: MemoryData): void;
}

const EVENT = '{"type":"event"';
/** As an agent writes one: its number and, to the end, its body. */
const SAID = /^\{"type":"event","seq":(\d+),"body":(.*)\}$/s;

export function createWatchedDisk(world: World, { data: empty }: MemoryDisk): WatchedDisk {
  const taken = new Map<string, string[]>();
  const heard = new Map<string, string>();
  let data = empty;
  let isSetBack = false;
  return {
    get data() {
      return data;
    },
    set data(next) {
      for (const [before, after] of changed<AgentRow>(data, next, "agents")) take(before, after);
      for (const [before, after] of changed<JobRow>(data, next, "jobs")) {
        if (!isSettled(before.state) || before.attempt !== after.attempt) continue;
        const isSame = JSON.stringify(before.state) === JSON.stringify(after.state);
        must(world, isSame, "an end is told once", `${after.id} ends again`);
      }
      data = next;
    },
    get isSetBack() {
      return isSetBack;
    },
    restore(backup) {
      isSetBack = true;
      data = backup;
    },
    arrivals: {
      taken,
      heard(audience, text) {
        if (!text.startsWith(EVENT)) return;
        const [, seq, body = ""] = SAID.exec(text) ?? [];
        heard.set(`${audience} ${seq}`, body);
      },
    },
  };

  function take(before: AgentRow, { journalId, upAcked, audience }: AgentRow): void {
    if (journalId === null || before.journalId !== journalId) return;
    const events = taken.get(journalId) ?? [];
    taken.set(journalId, events);
    for (let seq = before.upAcked + 1; seq <= upAcked; seq++) {
      events.push(heard.get(`${audience} ${seq}`) ?? "an event that never came");
    }
  }
}

/** Rows that were there and are other rows now. */
function changed<Row>(
  before: MemoryData,
  after: MemoryData,
  table: "agents" | "jobs",
): (readonly [Row, Row])[] {
  const old = before.nouns.get(table);
  const now = after.nouns.get(table);
  const found: (readonly [Row, Row])[] = [];
  if (!old || !now || old === now) return found;
  for (const [key, row] of now) {
    const was = old.get(key);
    if (was && was !== row) found.push([was.body as Row, row.body as Row]);
  }
  return found;
}
