// Where both sequences go on from when an agent connects: each side says how far it is, and a lost
// journal starts anew, in the open.

import type { Hello, LinkRecord, SequencedCommand } from "./link-state.ts";

export interface Session {
  readonly upAcked: number;
  readonly downHead: number;
  readonly downAcked: number;
  readonly unacked: readonly SequencedCommand[];
  readonly renumbered: readonly SequencedCommand[];
  /** Offers the agent never had and nobody wants any more, as the cancels that go in their place. */
  readonly withdrawn: readonly SequencedCommand[];
  readonly reset?: string;
  /** This server was set back: what it has forgotten, the agent has to tell. */
  readonly isSetBack: boolean;
}

export function resumeSession(
  hello: Hello,
  record: LinkRecord,
  unacked: readonly SequencedCommand[],
): Session {
  const reset = resetReason(hello, record);
  if (reset === undefined) {
    const downAcked = Math.max(record.downAcked, hello.downAcked);
    const coming = withoutCancelled(unacked.filter(({ seq }) => seq > downAcked));
    return {
      upAcked: record.upAcked,
      downHead: record.downHead,
      downAcked,
      ...coming,
      renumbered: [],
      // One that joined anew and has lived before, under a row this server has lost.
      isSetBack: record.journalId === null && hasLived(hello),
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
    withdrawn: [],
    reset,
    // An agent whose journal is empty sends an inventory unasked; one that only joined anew does not.
    isSetBack: hello.journalId === record.journalId || hasLived(hello),
  };
}

function hasLived({ issueNo = 0 }: Hello): boolean {
  return issueNo > 0;
}

/**
 * The agent's journal ends before these commands, so none of them was ever acted on. An offer that was cancelled
 * since need not be made: its number must be used, and the cancel does no harm there.
 */
function withoutCancelled(
  coming: readonly SequencedCommand[],
): Pick<Session, "unacked" | "withdrawn"> {
  const cancels = new Map(
    coming.flatMap(({ body }) =>
      body.type === "job_cancel" ? [[`${body.job}/${body.attempt}`, body] as const] : [],
    ),
  );
  const withdrawn = coming.flatMap((command) => {
    const { body } = command;
    const cancel = cancels.get(`${body.job}/${body.attempt}`);
    return body.type === "job_offer" && cancel ? [{ ...command, body: cancel }] : [];
  });
  const inPlace = new Map(withdrawn.map((command) => [command.seq, command]));
  return { unacked: coming.map((command) => inPlace.get(command.seq) ?? command), withdrawn };
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
