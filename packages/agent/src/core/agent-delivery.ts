// What the agent sends until the server has it: its events in order, the logs of its jobs from wherever the
// server says it has them, and the close of a job whose end and log have both arrived.

import { type JobName } from "@exclave/core";
import { act, dropJob, journal, send, setJob, type Turn } from "./turn.ts";

const EVENTS_IN_FLIGHT_MAX = 64;

export function handleAck(turn: Turn, seq: number): void {
  const { upAcked, upHead, link } = turn.state;
  if (seq <= upAcked || seq > upHead) return;
  const events = turn.state.events.filter((event) => event.seq > seq);
  turn.state = { ...turn.state, upAcked: seq, events };
  if (link.status === "up" && link.sent < seq) {
    turn.state = { ...turn.state, link: { ...link, sent: seq } };
  }
  journal(turn, { kind: "events_acked", upTo: seq });
  for (const [name, { record }] of turn.state.jobs) {
    if (record.endedSeq === undefined) continue;
    // The end is safe with the server: what the runtime kept for a second look may go.
    if (record.endedSeq > upAcked && record.endedSeq <= seq) act(turn, { kind: "remove", name });
  }
}

export function rewindEvents(turn: Turn, sent: number): void {
  const { link, upAcked, upHead } = turn.state;
  if (link.status === "down") return;
  const to = Math.min(Math.max(sent, upAcked), upHead);
  turn.state = { ...turn.state, link: { ...link, sent: to } };
}

export function handleLogAck(turn: Turn, name: JobName, upTo: number): void {
  const job = turn.state.jobs.get(name);
  if (!job) return;
  const { log } = job;
  if (upTo > log.acked) {
    const sent = Math.max(log.sent, upTo);
    setJob(turn, { ...job, log: { ...log, acked: upTo, sent } });
  } else if (upTo === log.acked && log.sent > upTo && log.rewoundAt !== upTo) {
    // The same place twice: what was sent after it did not arrive.
    setJob(turn, { ...job, log: { ...log, sent: upTo, rewoundAt: upTo } });
  }
}

export function pumpEvents(turn: Turn): void {
  const { link, events, upAcked } = turn.state;
  if (link.status === "down") return;
  let sent = link.sent;
  for (const { seq, body } of events) {
    if (seq <= sent) continue;
    if (seq > upAcked + EVENTS_IN_FLIGHT_MAX) break;
    send(turn, { type: "event", seq, body });
    sent = seq;
  }
  if (sent !== link.sent) turn.state = { ...turn.state, link: { ...link, sent } };
}

export function pumpLogs(turn: Turn): void {
  const { link } = turn.state;
  if (link.status === "down") return;
  for (const [name, job] of turn.state.jobs) {
    let { sent } = job.log;
    const end = Math.min(job.log.bytes, job.log.acked + link.logCreditBytes);
    while (sent < end) {
      const bytes = Math.min(end - sent, Math.floor(link.logChunkBytes));
      act(turn, { kind: "send_log", name, offset: sent, bytes });
      sent += bytes;
    }
    if (sent !== job.log.sent) setJob(turn, { ...job, log: { ...job.log, sent } });
  }
}

/** A job leaves the journal when the server has its end and all of its log. */
export function closeDeliveredJobs(turn: Turn): void {
  const { upAcked, link } = turn.state;
  if (link.status === "down") return;
  for (const [name, { record, phase, log }] of turn.state.jobs) {
    const isTold = phase === "ended" && (record.endedSeq ?? Infinity) <= upAcked;
    if (!isTold || log.acked < log.bytes) continue;
    journal(turn, { kind: "job_removed", name });
    dropJob(turn, name);
    act(turn, { kind: "drop_spool", name });
  }
}
