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
  type AppliedComponent,
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
import { type Audience, type Envelope, fromBase64, Manifest } from "@exclave/core";
import { WebSocket } from "ws";

export interface Identity {
  readonly agent: string;
  readonly audience: Audience;
  readonly keyGeneration: number;
  readonly url: string;
  readonly privateKey: KeyObject;
}

export async function join(
  joinString: string,
  { privateKey, publicKey } = generateKeyPairSync("ed25519"),
): Promise<Identity> {
  const decoded = decodeJoinString(joinString);
  if (!decoded) throw new Error("not a join string");
  const sealing = generateKeyPairSync("x25519");
  const response = await createClient({ url: decoded.url }).call(joinAgent, {
    body: {
      secret: decoded.secret,
      trustDigest: decoded.trustDigest,
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
  joinString(
    job: string,
    attempt?: number,
  ): Promise<{ joinString?: string | undefined; refused?: string | undefined }>;
  send(frame: AgentFrame): void;
  sendLog(job: string, attempt: number, offset: number, text: string): void;
  next(isIt: (frame: ServerFrame) => boolean): Promise<ServerFrame>;
  disconnect(): Promise<void>;
}

export interface AgentMemory {
  /** The process it is. */
  bootId?: string;
  /** Undefined for an agent that knows of no trust documents. */
  trustVersion?: number;
  /** Undefined for an agent that keeps no checkpoints; and what it presents when it is asked. */
  checkpointSizes?: number[];
  presents?: Envelope[] | undefined;
  /** What it can do beyond what every agent can. */
  capabilities?: string[];
  journalId: string;
  upHead: number;
  downAcked: number;
  /** Highest number of a manifest it took: what is not above is refused as a replay. */
  issueNo: number;
  /** What it applied last, by component: said when a server that was set back asks. */
  readonly applied: Map<string, AppliedComponent>;
}

export const newMemory = (): AgentMemory => ({
  journalId: randomBytes(6).toString("hex"),
  upHead: 0,
  downAcked: 0,
  issueNo: 0,
  applied: new Map(),
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
    joinString,
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
    if (frame.type === "checkpoints_want" && memory.presents) {
      agent.send({ type: "checkpoints", list: memory.presents });
    }
    if (frame.type === "welcome" && frame.inventoryWanted) void sayInventory();
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

  async function sayInventory(): Promise<void> {
    const deployed = [...memory.applied.values()];
    await say({ type: "inventory", at: Date.now(), jobs: [], deployed });
  }

  function refuseReplay(manifest: Manifest): AgentEvent[] | undefined {
    const { id: job, attempt, issueNo } = manifest;
    if (issueNo > memory.issueNo) {
      memory.issueNo = issueNo;
      return undefined;
    }
    const because = `its number ${issueNo} is not above ${memory.issueNo}`;
    return [{ type: "job_rejected", job, attempt, at: 1, code: "replayed", because }];
  }

  async function run(manifest: Manifest): Promise<void> {
    const events = refuseReplay(manifest) ?? script.onOffer?.(manifest);
    if (events) {
      for (const event of events) await say(event);
      return;
    }
    const { job, attempt, at } = about(manifest);
    await say({ type: "job_accepted", job, attempt, at });
    await say({ type: "job_started", job, attempt, at });
    const ending = await script.onJob?.(manifest, agent);
    if (ending) keepApplied(manifest, ending);
    if (ending) await end(manifest, ending);
  }

  function keepApplied({ operation, release, steps }: Manifest, { outcome }: Ending): void {
    const [step] = steps;
    if (outcome && outcome.kind !== "succeeded") return;
    if (operation !== "apply" || !step?.component || release === undefined) return;
    const { component, type = "", effect } = step;
    memory.applied.set(component, { component, type, release, effect });
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

  async function joinString(job: string, attempt = 1) {
    const answered = next((frame) => frame.type === "join" && frame.job === job);
    agent.send({ type: "join_want", job: job as never, attempt });
    const frame = await answered;
    return frame.type === "join" ? frame : {};
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
    const { bootId = "boot" } = memory;
    const bytes = helloBytes(nonce, identity.agent, bootId);
    return {
      type: "hello",
      protos: [1],
      agent: identity.agent as never,
      version: "0.1.0",
      platform: "test",
      runtime: "scripted",
      capabilities: memory.capabilities ?? [],
      keyGeneration: identity.keyGeneration,
      bootId,
      ...(memory.trustVersion !== undefined && { trustVersion: memory.trustVersion }),
      ...(memory.checkpointSizes && { checkpointSizes: memory.checkpointSizes }),
      downAcked: memory.downAcked,
      upHead: memory.upHead,
      upFrom: memory.upHead + 1,
      journalId: memory.journalId,
      issueNo: memory.issueNo,
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
