// An agent that speaks the real protocol over a real socket and does what the test says with the
// jobs it is offered.

import {
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
} from "node:crypto";
import { once } from "node:events";
import {
  type AgentEvent,
  type AgentFrame,
  createClient,
  createJoin,
  decodeJoinString,
  encodeLogFrame,
  type Grant,
  helloBytes,
  joinAgent,
  LINK_PATH,
  LINK_PROTOCOL,
  ServerFrame,
} from "@exclave/api";
import { fromBase64, Manifest } from "@exclave/core";
import { WebSocket } from "ws";

export interface Identity {
  readonly agent: string;
  readonly audience: string;
  readonly keyGeneration: number;
  readonly url: string;
  readonly privateKey: KeyObject;
}

export async function join(joinString: string): Promise<Identity> {
  const decoded = decodeJoinString(joinString);
  if (!decoded) throw new Error("not a join string");
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const sealing = generateKeyPairSync("x25519");
  const response = await createClient({ url: decoded.url }).call(joinAgent, {
    body: {
      secret: decoded.secret,
      identityKey: publicKey.export({ type: "spki", format: "der" }).toString("base64"),
      sealingKey: sealing.publicKey.export({ type: "spki", format: "der" }).toString("base64"),
      proof: sign(null, Buffer.from(decoded.secret), privateKey).toString("base64"),
    },
  });
  const { agent, audience, keyGeneration } = response;
  return { agent, audience, keyGeneration, url: decoded.url, privateKey };
}

export async function joinVendorAgent(
  { url, token }: { readonly url: string; readonly token: string },
  kind: "build" | "setup",
): Promise<Identity> {
  const { joinString } = await createClient({ url, token }).call(createJoin, { body: { kind } });
  return join(joinString);
}

export type Ending = Partial<Extract<AgentEvent, { type: "job_ended" }>> & {
  readonly log?: string;
};

export interface AgentScript {
  /** How a job goes; undefined leaves it running. */
  readonly onJob?: (manifest: Manifest, agent: ScriptedAgent) => Promise<Ending | undefined>;
  /** Answers an offer with something else than accept, start, end. */
  readonly onOffer?: (manifest: Manifest) => AgentEvent[] | undefined;
}

export interface ScriptedAgent {
  readonly identity: Identity;
  readonly memory: AgentMemory;
  readonly offered: readonly Manifest[];
  readonly frames: readonly ServerFrame[];
  readonly closed: Promise<unknown>;
  /** Sends an event with the next sequence and waits for its acknowledgement. */
  say(event: AgentEvent): Promise<void>;
  end(manifest: Manifest, ending: Ending): Promise<void>;
  grant(
    job: string,
    attempt?: number,
    repositories?: string[],
  ): Promise<{ grant?: Grant | undefined; refused?: string | undefined }>;
  send(frame: AgentFrame): void;
  sendLog(job: string, attempt: number, offset: number, text: string): void;
  next(isIt: (frame: ServerFrame) => boolean): Promise<ServerFrame>;
  disconnect(): Promise<void>;
}

export interface AgentMemory {
  journalId: string;
  upHead: number;
  downAcked: number;
}

export const newMemory = (): AgentMemory => ({
  journalId: randomBytes(6).toString("hex"),
  upHead: 0,
  downAcked: 0,
});

export async function connectAgent(
  identity: Identity,
  script: AgentScript = {},
  memory: AgentMemory = newMemory(),
  url = identity.url,
): Promise<ScriptedAgent> {
  const socket = new WebSocket(url.replace("http", "ws") + LINK_PATH, LINK_PROTOCOL);
  const closed = once(socket, "close");
  const frames: ServerFrame[] = [];
  const offered: Manifest[] = [];
  const waiting = new Set<(frame: ServerFrame) => void>();

  const agent: ScriptedAgent = {
    identity,
    memory,
    offered,
    frames,
    closed,
    say,
    end,
    grant,
    send: (frame) => socket.send(JSON.stringify(frame)),
    sendLog: (job, attempt, offset, text) =>
      socket.send(encodeLogFrame({ job, attempt, offset, bytes: Buffer.from(text) })),
    next,
    async disconnect() {
      socket.close();
      await closed;
    },
  };
  const welcomed = next(({ type }) => type === "welcome" || type === "goaway");
  socket.on("message", (data: Buffer) => {
    const frame = ServerFrame.parse(JSON.parse(data.toString()));
    frames.push(frame);
    for (const look of waiting) look(frame);
    receive(frame);
  });
  socket.on("error", () => undefined);
  const first = await Promise.race([welcomed, closed]);
  if (!Array.isArray(first) && first.type === "goaway")
    throw new Error(`${first.code}: ${first.because}`);
  return agent;

  function receive(frame: ServerFrame): void {
    if (frame.type === "challenge") agent.send(hello(frame.nonce));
    if (frame.type === "ping") agent.send({ type: "pong", id: frame.id });
    if (frame.type !== "command" || frame.seq <= memory.downAcked) return;
    memory.downAcked = frame.seq;
    agent.send({ type: "ack", seq: frame.seq });
    if (frame.body.type !== "job_offer") return;
    const payload = fromBase64(frame.body.envelope.payload) ?? new Uint8Array();
    const manifest = Manifest.parse(JSON.parse(new TextDecoder().decode(payload)));
    offered.push(manifest);
    run(manifest).catch((reason: unknown) => {
      // A test that took the server away is not interested in what became of the rest.
      if (socket.readyState === socket.OPEN) throw reason;
    });
  }

  async function run(manifest: Manifest): Promise<void> {
    const events = script.onOffer?.(manifest);
    if (events) {
      for (const event of events) await say(event);
      return;
    }
    const { job, attempt, at } = about(manifest);
    await say({ type: "job_accepted", job, attempt, at });
    await say({ type: "job_started", job, attempt, at });
    const ending = await script.onJob?.(manifest, agent);
    if (ending) await end(manifest, ending);
  }

  async function end(manifest: Manifest, { log = "", ...ending }: Ending): Promise<void> {
    const { job, attempt, at } = about(manifest);
    if (log !== "") {
      agent.sendLog(job, attempt, 0, log);
      await next((frame) => frame.type === "log_ack" && frame.job === job);
    }
    await say({
      type: "job_ended",
      job,
      attempt,
      at,
      outcome: { kind: "succeeded" },
      outputs: [],
      artifacts: [],
      logBytes: Buffer.byteLength(log),
      logSha256: createHash("sha256").update(log).digest("hex"),
      ...ending,
    });
  }

  async function say(event: AgentEvent): Promise<void> {
    const seq = ++memory.upHead;
    const acked = next((frame) => frame.type === "ack" && frame.seq >= seq);
    agent.send({ type: "event", seq, body: event });
    await acked;
  }

  async function grant(job: string, attempt = 1, repositories?: string[]) {
    const answered = next((frame) => frame.type === "grant" && frame.job === job);
    const named = repositories === undefined ? {} : { repositories };
    agent.send({ type: "grant_want", job: job as never, attempt, ...named });
    const frame = await answered;
    return frame.type === "grant" ? frame : {};
  }

  function next(isIt: (frame: ServerFrame) => boolean): Promise<ServerFrame> {
    return new Promise((resolve) => {
      const look = (frame: ServerFrame) => {
        if (!isIt(frame)) return;
        waiting.delete(look);
        resolve(frame);
      };
      waiting.add(look);
    });
  }

  function hello(nonce: string): AgentFrame {
    const bootId = "boot";
    const bytes = helloBytes(nonce, identity.agent, bootId);
    return {
      type: "hello",
      protos: [1],
      agent: identity.agent as never,
      version: "0.1.0",
      platform: "test",
      runtime: "scripted",
      capabilities: [],
      keyGeneration: identity.keyGeneration,
      bootId,
      downAcked: memory.downAcked,
      upHead: memory.upHead,
      upFrom: 1,
      journalId: memory.journalId,
      jobs: [],
      clockMs: Date.now(),
      proof: sign(
        null,
        bytes,
        createPrivateKey(identity.privateKey.export({ type: "pkcs8", format: "pem" })),
      ).toString("base64"),
    };
  }
}

function about({ id, attempt }: Manifest) {
  return { job: id, attempt, at: Date.now() };
}
