// Where both sequences go on from when an agent connects: each side says how far it is, and a lost
// journal starts anew, in the open.

import type { Hello, LinkRecord, SequencedCommand } from "./link-state.ts";

export interface Session {
  readonly upAcked: number;
  readonly downHead: number;
  readonly downAcked: number;
  readonly unacked: readonly SequencedCommand[];
  readonly renumbered: readonly SequencedCommand[];
  readonly reset?: string;
}

export function resumeSession(
  hello: Hello,
  record: LinkRecord,
  unacked: readonly SequencedCommand[],
): Session {
  const reset = resetReason(hello, record);
  if (reset === undefined) {
    const downAcked = Math.max(record.downAcked, hello.downAcked);
    return {
      upAcked: record.upAcked,
      downHead: record.downHead,
      downAcked,
      unacked: unacked.filter(({ seq }) => seq > downAcked),
      renumbered: [],
    };
  }
  // What is still in the outbox never reached the journal that counts now. Its numbers begin after
  // whatever this journal says it has.
  const renumbered = unacked.map(({ row, body }, index) => ({
    row,
    seq: hello.downAcked + index + 1,
    body,
  }));
  return {
    upAcked: eventsHeldFrom(hello, record),
    downHead: hello.downAcked + renumbered.length,
    downAcked: hello.downAcked,
    unacked: renumbered,
    renumbered,
    reset,
  };
}

/** The last event that will not come again: all above it are still in the journal, and are wanted. */
function eventsHeldFrom(hello: Hello, record: LinkRecord): number {
  const acknowledged = Math.max(0, hello.upFrom - 1);
  if (hello.journalId !== record.journalId) return acknowledged;
  return Math.min(hello.upHead, Math.max(record.upAcked, acknowledged));
}

function resetReason(hello: Hello, record: LinkRecord): string | undefined {
  if (record.journalId === null) return undefined;
  if (hello.journalId !== record.journalId) return "the agent's journal is a new one";
  if (hello.upHead < record.upAcked) return "the agent's journal is older than what it sent";
  if (hello.downAcked > record.downHead) return "the agent has commands this server never numbered";
  return undefined;
}
