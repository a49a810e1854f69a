// The agent's journal as one life of it sees it: full disks strike here, sabotage is done here, and
// what is on disk is known here, to be compared with what the agent says.

import type { Journal, JournalWrite } from "@exclave/agent/simulation";
import type { Home } from "./home.ts";
import { must, type World } from "./world.ts";

type JournalSnapshot = ReturnType<Journal["load"]>;

const LATE_MS = 400;

export function createWatchedJournal(world: World, home: Home): Journal {
  const { journal } = home;
  return {
    ...journal,
    load: () =>
      world.sabotage === "events-are-lost" ? withoutLast(journal.load()) : journal.load(),
    commit(writes) {
      if (home.isDiskFull && writes.length > 0) {
        throw Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
      }
      journal.commit(writes.filter((write) => !isForgotten(world, write)));
      noteEvents(home, writes);
      const noteDurable = () => noteWrites(home, writes);
      if (world.sabotage !== "agent-acts-before-commit") return noteDurable();
      world.time.timersFor(() => true).after(LATE_MS, noteDurable);
    },
  };
}

function isForgotten({ sabotage }: World, write: JournalWrite): boolean {
  if (write.kind !== "job") return false;
  if (sabotage === "ends-are-forgotten") return write.record.status === "ended";
  if (sabotage !== "launches-are-forgotten") return false;
  return write.record.status === "launching" || write.record.status === "running";
}

/** As if the last commit had not been synced. */
function withoutLast(snapshot: JournalSnapshot): JournalSnapshot {
  const { events, upHead } = snapshot;
  if (events.length === 0) return snapshot;
  return { ...snapshot, events: events.slice(0, -1), upHead: upHead - 1 };
}

function noteEvents(home: Home, writes: readonly JournalWrite[]): void {
  for (const write of writes) {
    if (write.kind === "event") home.journaled.push(write.body);
    if (write.kind === "restart") home.isRestarted = true;
  }
}

function noteWrites({ durable }: Home, writes: readonly JournalWrite[]): void {
  for (const write of writes) {
    if (write.kind === "down_acked") durable.downAcked = write.seq;
    if (write.kind === "event") durable.upHead = write.seq;
    if (write.kind === "restart") Object.assign(durable, { downAcked: 0, upHead: Infinity });
  }
}

/** Whatever an agent says must be on its disk. */
export function watchSaid(world: World, { durable }: Home, data: string | Uint8Array): void {
  if (typeof data !== "string") return;
  if (data.startsWith('{"type":"ack"')) {
    const promise = "a command is acknowledged only when it is journaled";
    must(world, seqOf(data) <= durable.downAcked, promise);
  }
  if (data.startsWith('{"type":"event"')) {
    must(world, seqOf(data) <= durable.upHead, "an event is said only when it is journaled");
  }
}

const SEQ = /^\{"type":"[a-z]+","seq":(\d+)/;

/** Of a frame as both sides write it; no number, which no comparison is true of, where there is none. */
export function seqOf(frame: string): number {
  return Number(SEQ.exec(frame)?.[1] ?? Number.NaN);
}
