// An agent that costs little: it speaks the whole protocol with a key of its own, and its jobs are timers. What it has
// said and was not acknowledged it says again on the next connection, as one with a journal does.

import { createPrivateKey, type KeyObject, randomBytes, sign } from "node:crypto";
import {
  type AgentEvent,
  type AgentFrame,
  DRAIN,
  helloBytes,
  LINK_PATH,
  LINK_PROTOCOL,
  type ServerFrame,
} from "@exclave/api";
import type { Envelope } from "@exclave/core";
import { type ClientOptions, WebSocket } from "ws";
import { createFleetLogs } from "./fleet-logs.ts";
import { COMPONENT, type FleetMember } from "./seed-fleet.ts";

/** A job in an install takes at least so long: a process is prepared, started, and ends. */
const STARTED_AFTER_MS = 20;
const ENDED_AFTER_MS = 50;
/** As the real agent gives a connection up. */
const FIRST_SILENCE_MS = 30_000;
const SILENCE_PINGS = 2.5;

export interface FleetWatch {
  /** What a job writes; nothing unless given. */
  logOf?(job: string): AsyncIterable<Buffer>;
  /** The server has all that a job wrote. */
  onLogDelivered?(job: string): void;
  onLive(agent: FleetAgent): void;
  onClosed(agent: FleetAgent): void;
  /** The server has it on record that the agent has the job, or how it ended. */
  onAcknowledged(event: AgentEvent, agent: FleetAgent): void;
}

export interface FleetAgent {
  readonly install: string;
  isLive(): boolean;
  /** Events the server has not acknowledged. */
  unacknowledged(): number;
  connect(url: string): void;
  /** Ends the connection and stays away. */
  stop(): void;
}

type Kept = { readonly seq: number; readonly body: AgentEvent };
type Offer = { readonly job: string; readonly attempt: number; readonly envelope: Envelope };

export function createFleetAgent(
  { install, agent: id, privateKey, certificate }: FleetMember,
  watch: FleetWatch,
  ca?: string,
): FleetAgent {
  const key: KeyObject = createPrivateKey(privateKey);
  const dialling: ClientOptions = {
    perMessageDeflate: false,
    skipUTF8Validation: true,
    ...(certificate !== undefined && { ca, cert: certificate, key: privateKey }),
  };
  const journalId = randomBytes(6).toString("hex");
  let socket: WebSocket | undefined;
  let unacked: Kept[] = [];
  let upHead = 0;
  let downAcked = 0;
  let trustVersion = 0;
  let checkpoint: { readonly size: number; readonly envelope: Envelope } | undefined;
  let isLive = false;
  let failures = 0;
  let spreadMs = 1_000;
  let retryAfterMs = 0;
  /** Of a server that sent it away by itself, or stops. */
  let leaveSpreadMs: number | undefined;
  let leaving: NodeJS.Timeout | undefined;
  let silence: NodeJS.Timeout | undefined;
  let silenceMs = FIRST_SILENCE_MS;
  let redial: NodeJS.Timeout | undefined;
  let url = "";
  let isStopped = false;

  const logs = createFleetLogs(sendBytes, (job) => watch.onLogDelivered?.(job));

  const self: FleetAgent = {
    install,
    isLive: () => isLive,
    unacknowledged: () => unacked.length,
    connect(to) {
      url = to;
      isStopped = false;
      dial();
    },
    stop() {
      isStopped = true;
      clearTimeout(redial);
      clearTimeout(silence);
      socket?.terminate();
    },
  };
  return self;

  function dial(): void {
    const address = url.replace("http", "ws") + LINK_PATH;
    const opened = new WebSocket(address, LINK_PROTOCOL, dialling);
    socket = opened;
    const giveUp = () => opened.terminate();
    silence = setTimeout(giveUp, silenceMs);
    opened.on("message", (data: Buffer) => {
      if (socket !== opened) return;
      clearTimeout(silence);
      silence = setTimeout(giveUp, silenceMs);
      receive(JSON.parse(data.toString()) as ServerFrame);
    });
    opened.on("error", () => undefined);
    opened.on("close", () => {
      if (socket === opened) closed();
    });
  }

  function closed(): void {
    const wasLive = isLive;
    clearTimeout(leaving);
    clearTimeout(silence);
    logs.lost();
    isLive = false;
    failures = wasLive ? 0 : failures + 1;
    if (wasLive) watch.onClosed(self);
    if (isStopped) return;
    // The same windows as the real agent's.
    const windowMs =
      failures === 0 ? (leaveSpreadMs ?? spreadMs) : 1_000 * 2 ** Math.min(failures - 1, 6);
    leaveSpreadMs = undefined;
    redial = setTimeout(dial, retryAfterMs + Math.random() * windowMs);
    retryAfterMs = 0;
  }

  function receive(frame: ServerFrame): void {
    switch (frame.type) {
      case "challenge":
        return send(hello(frame.nonce));
      case "welcome":
        isLive = true;
        silenceMs = frame.pingMs * SILENCE_PINGS;
        spreadMs = frame.reconnectSpreadMs;
        acknowledged(frame.upAcked);
        for (const { seq, body } of unacked) send({ type: "event", seq, body });
        logs.welcomed(frame.logs, frame.limits.logCreditBytes);
        return watch.onLive(self);
      case "goaway":
        retryAfterMs = frame.retryAfterMs;
        leaveSpreadMs = frame.spreadMs;
        return;
      case "drain":
        leaveSpreadMs = 0;
        leaving = setTimeout(() => socket?.close(1001), frame.afterMs);
        return;
      case "ping":
        return send({ type: "pong", id: frame.id, looks: [{ component: COMPONENT, agoMs: 0 }] });
      case "ack":
        return acknowledged(frame.seq);
      case "log_ack":
        return logs.acknowledged(frame.job, frame.attempt, frame.upTo);
      case "resend":
        for (const { seq, body } of unacked) {
          if (seq >= frame.from) send({ type: "event", seq, body });
        }
        return;
      case "command":
        return command(frame.seq, frame.body);
      case "grant":
        return work(frame.job, frame.attempt);
      case "trust":
        trustVersion = payloadOf(frame.envelope).version;
        return;
      case "checkpoint":
        checkpoint = { size: payloadOf(frame.envelope).size, envelope: frame.envelope };
        return;
      case "checkpoints_want":
        return send({ type: "checkpoints", list: checkpoint ? [checkpoint.envelope] : [] });
      default:
        return;
    }
  }

  function command(seq: number, body: Extract<ServerFrame, { type: "command" }>["body"]): void {
    if (seq > downAcked + 1) return send({ type: "resend", from: downAcked + 1 });
    const isNew = seq === downAcked + 1;
    downAcked = Math.max(downAcked, seq);
    send({ type: "ack", seq: downAcked });
    if (isNew && body.type === "job_offer") accept(body);
  }

  function accept({ job, attempt, envelope }: Offer): void {
    say({ type: "job_accepted", job: job as never, attempt, at: Date.now() });
    const { operation } = payloadOf(envelope);
    // A sync asks for access to the vendor's registry first.
    if (operation === "sync") send({ type: "grant_want", job: job as never, attempt });
    else work(job, attempt);
  }

  function work(id: string, attempt: number): void {
    const job = id as never;
    setTimeout(() => say({ type: "job_started", job, attempt, at: Date.now() }), STARTED_AFTER_MS);
    setTimeout(() => void end(id, attempt), STARTED_AFTER_MS + ENDED_AFTER_MS);
  }

  async function end(job: string, attempt: number): Promise<void> {
    for await (const bytes of watch.logOf?.(job) ?? []) logs.append(job, attempt, bytes);
    const { bytes: logBytes, sha256: logSha256 } = logs.end(job);
    say({
      type: "job_ended",
      job: job as never,
      attempt,
      at: Date.now(),
      outcome: { kind: "succeeded" },
      outputs: [],
      artifacts: [],
      logBytes,
      logSha256,
    });
  }

  function say(body: AgentEvent): void {
    const seq = ++upHead;
    unacked.push({ seq, body });
    send({ type: "event", seq, body });
  }

  function acknowledged(seq: number): void {
    const done = unacked.filter((kept) => kept.seq <= seq);
    unacked = unacked.filter((kept) => kept.seq > seq);
    for (const { body } of done) watch.onAcknowledged(body, self);
  }

  function send(frame: AgentFrame): void {
    // Before the welcome nothing but the hello is said; what is kept follows it.
    if (!isLive && frame.type !== "hello") return;
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(frame));
  }

  function sendBytes(frame: Uint8Array): void {
    if (isLive && socket?.readyState === WebSocket.OPEN) socket.send(frame);
  }

  function hello(nonce: string): AgentFrame {
    const bootId = "boot";
    return {
      type: "hello",
      protos: [1],
      agent: id as never,
      version: "0.1.0",
      platform: "load",
      runtime: "timers",
      capabilities: [DRAIN],
      keyGeneration: 1,
      bootId,
      trustVersion,
      checkpointSizes: checkpoint ? [checkpoint.size] : [],
      downAcked,
      upHead,
      upFrom: unacked[0]?.seq ?? upHead + 1,
      journalId,
      jobs: logs.open().map((log) => ({ ...log, job: log.job as never })),
      clockMs: Date.now(),
      proof: sign(null, helloBytes(nonce, id, bootId), key).toString("base64"),
    };
  }
}

function payloadOf({ payload }: Envelope): {
  readonly operation: string;
  readonly version: number;
  readonly size: number;
} {
  return JSON.parse(Buffer.from(payload, "base64").toString()) as never;
}
