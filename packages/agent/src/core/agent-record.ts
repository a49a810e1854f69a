// The server's record, as far as this agent has seen it. A server whose record does not continue it is
// given no work to direct: somebody rewrote what customers were told is on record.

import {
  CHECKPOINTS_PRESENTED_BYTES_MAX,
  CHECKPOINTS_PRESENTED_MAX,
  type ServerFrame,
} from "@exclave/api";
import { judgeRecord, keepCheckpoint, unreachable } from "@exclave/core";
import type { KeptCheckpoint } from "../journal/journal.ts";
import type { AgentState } from "./agent-state.ts";
import { act, journal, raise, send, type Turn } from "./turn.ts";

type CheckpointFrame = Extract<ServerFrame, { type: "checkpoint" }>;

/** What a hello asks about: sizes alone, so that only who has the record can answer. */
export function seenSizes({ checkpoints }: AgentState): number[] {
  return counting(checkpoints).map(({ size }) => size);
}

/** The latest time the server is known to have had: its signed checkpoints say so. */
export function serverTimeSeen({ checkpoints }: AgentState): number {
  return Math.max(0, ...counting(checkpoints).map(({ at }) => at));
}

/** Whether this connection may direct work: nothing was seen before, or what was seen was shown to go on. */
export function isRecordShown({ link, checkpoints }: AgentState): boolean {
  return (
    (link.status === "up" && link.isRecordShown === true) || counting(checkpoints).length === 0
  );
}

export function handleCheckpoint(turn: Turn, { envelope, heads }: CheckpointFrame): void {
  const { state, rules, now } = turn;
  const checkpoint = rules.openCheckpoint(envelope, state.trust, now);
  if ("because" in checkpoint) return refuseRecord(turn, checkpoint.because);
  const known = counting(state.checkpoints);
  // Shown once on this connection that all of it goes on, what comes next goes on from the last.
  const isShown = state.link.status === "up" && state.link.isRecordShown === true;
  const seen = isShown ? known.slice(-1) : known;
  const verdict = judgeRecord({ seen, checkpoint, heads });
  switch (verdict.kind) {
    case "refused":
      setShown(turn, false);
      return refuseRecord(turn, verdict.because);
    case "set_back":
      raise(turn, "record_set_back", verdict.because);
      loseAfter(turn, verdict.keptSize);
      break;
    case "continues":
      break;
    default:
      unreachable(verdict);
  }
  const { serverId, size, head, at } = checkpoint;
  keep(turn, { serverId, size, head, at, envelope });
  setShown(turn, true);
  turn.state = { ...turn.state, isRecordRefused: false };
}

/** The server has shown a record, under its checkpoint key; whether it continues what was seen. */
function setShown(turn: Turn, isRecordShown: boolean): void {
  const { link } = turn.state;
  if (link.status === "up") turn.state = { ...turn.state, link: { ...link, isRecordShown } };
}

/** How long a refused server is still told why, and can ask what was seen. */
const LEAVE_AFTER_MS = 1_000;

/** The connection ends soon; the next one is tried with backoff, for a server may be mended. */
export function refuseRecord(turn: Turn, why: string): void {
  const { link, isRecordRefused } = turn.state;
  if (link.status === "down" || link.leaving) return;
  const because = `the server's record is refused: ${why}`;
  // Once: the link to a server that stays as it is is retried without end.
  if (!isRecordRefused) raise(turn, "record_refused", because);
  const leaving = { at: turn.now + LEAVE_AFTER_MS, because };
  turn.state = { ...turn.state, isRecordRefused: true, link: { ...link, leaving } };
}

export function leaveIfRefused(turn: Turn): void {
  const { link } = turn.state;
  if (link.status === "down" || !link.leaving || turn.now < link.leaving.at) return;
  act(turn, { kind: "close", because: link.leaving.because });
}

/** Only to a server that has shown its record: from a checkpoint it could learn what it should have known. */
export function presentCheckpoints(turn: Turn): void {
  const { link, checkpoints } = turn.state;
  if (link.status === "down" || link.isRecordShown === undefined) return;
  let bytes = 0;
  const list = checkpoints
    .slice(-CHECKPOINTS_PRESENTED_MAX)
    .toReversed()
    .map(({ envelope }) => envelope)
    .filter(({ payload }) => {
      bytes += payload.length;
      return bytes <= CHECKPOINTS_PRESENTED_BYTES_MAX;
    });
  send(turn, { type: "checkpoints", list: list.toReversed() });
}

/** They stay for the customer to show, and count no more for what comes. */
function loseAfter(turn: Turn, keptSize: number): void {
  const checkpoints = turn.state.checkpoints.map((kept) =>
    kept.size > keptSize ? { ...kept, isLost: true } : kept,
  );
  turn.state = { ...turn.state, checkpoints };
}

function keep(turn: Turn, next: KeptCheckpoint): void {
  const { checkpoints } = turn.state;
  const last = counting(checkpoints).at(-1);
  if (last && last.size === next.size && last.head === next.head) return;
  const list = keepCheckpoint(checkpoints, next);
  turn.state = { ...turn.state, checkpoints: list };
  journal(turn, { kind: "checkpoints", list });
}

function counting(checkpoints: readonly KeptCheckpoint[]): readonly KeptCheckpoint[] {
  return checkpoints.filter(({ isLost }) => isLost !== true);
}
