// How much of a log an agent may send before the server has said that it is durable. Little, here, so that
// every log meets the limit; whoever sends more breaks a promise.

import { decodeLogFrame } from "@exclave/api";
import { jobName } from "@exclave/core";
import type { SimulatedSocket } from "./network.ts";
import { must, type World } from "./world.ts";

const CREDIT_BYTES = 32;
const GIVEN = /"logCreditBytes":\d+/;

/** Gives little credit over this connection, and watches that it is kept. */
export function limitCredit(
  world: World,
  agentEnd: SimulatedSocket,
  server: SimulatedSocket,
): void {
  const acked = new Map<string, number>();
  const heard = (job: string, attempt: number, upTo: number) =>
    acked.set(jobName(job, attempt), upTo);
  const given = world.sabotage === "credit-is-ignored" ? 1_000_000 : CREDIT_BYTES;
  server.alter = (data) =>
    typeof data === "string" && data.startsWith('{"type":"welcome"')
      ? data.replace(GIVEN, `"logCreditBytes":${given}`)
      : data;
  // Before the agent hears it: what it hears now it may use now.
  agentEnd.onHear = (text) => {
    if (typeof text !== "string") return;
    if (text.startsWith('{"type":"log_ack"')) {
      const { job, attempt, upTo } = JSON.parse(text) as LogAck;
      heard(job, attempt, upTo);
    }
    if (!text.startsWith('{"type":"welcome"')) return;
    const { logs } = JSON.parse(text) as { logs: readonly LogAck[] };
    for (const { job, attempt, upTo } of logs) heard(job, attempt, upTo);
  };
  const before = agentEnd.onSay;
  agentEnd.onSay = (data) => {
    before(data);
    const frame = typeof data === "string" ? undefined : decodeLogFrame(data);
    if (!frame) return;
    const name = jobName(frame.job, frame.attempt);
    const ahead = frame.offset + frame.bytes.length - (acked.get(name) ?? 0);
    must(world, ahead <= CREDIT_BYTES, "no log is sent beyond its credit", `${name} ${ahead}`);
  };
}

interface LogAck {
  readonly job: string;
  readonly attempt: number;
  readonly upTo: number;
}
