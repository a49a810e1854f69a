// A production agent in this process, linked over TLS to a server of the test; and a bare hello, for those who
// are not what they say.

import { createPrivateKey, sign } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { composeAgent, createDial, type Identity } from "@exclave/agent/simulation";
import { AGENT_CAPABILITIES, type AgentFrame, helloBytes, ServerFrame } from "@exclave/api";
import type { ServerDoor } from "@exclave/machine";
import { temporaryDirectory } from "@exclave/server/simulation";

export interface TlsAgent {
  readonly home: string;
  /** What it logged, oldest first. */
  readonly said: readonly string[];
  stop(): Promise<void>;
}

/** With a join string, or as whoever its home says it is. */
export async function startTlsAgent(
  t: TestContext,
  options: { readonly home?: string; readonly joinString?: string; readonly now?: () => number },
): Promise<TlsAgent> {
  const home = options.home ?? join(await temporaryDirectory(t), "agent-home");
  const said: string[] = [];
  const note = (text: string, about: object = {}) => {
    said.push(`${text} ${JSON.stringify(about)}`);
  };
  const agent = await composeAgent({
    kind: "setup",
    home,
    joinString: options.joinString,
    version: "0.1.0",
    platform: "test",
    path: process.env["PATH"] ?? "",
    now: options.now ?? Date.now,
    random: () => 0,
    log: { debug: note, info: note, warn: note, error: note },
  });
  let isStopped = false;
  const stop = async () => {
    if (isStopped) return;
    isStopped = true;
    await agent.stop();
  };
  t.after(stop);
  return { home, said, stop };
}

/** What the server says to a hello of that agent on a connection through that door. */
export async function greetThrough(
  door: ServerDoor,
  { agent, identityKey, keyGeneration, serverUrl }: Identity,
  changes: Partial<Extract<AgentFrame, { type: "hello" }>> = {},
): Promise<ServerFrame[]> {
  const socket = createDial(() => door)(`${serverUrl.replace("https:", "wss:")}/v1/link`);
  const frames: ServerFrame[] = [];
  const done = Promise.withResolvers<void>();
  socket.on("error", (reason) => done.reject(reason));
  socket.on("close", () => done.resolve());
  socket.on("message", (data: Buffer) => {
    const frame = ServerFrame.parse(JSON.parse(data.toString()));
    if (frame.type === "challenge") return socket.send(JSON.stringify(hello(frame.nonce)));
    frames.push(frame);
    if (frame.type === "welcome" || frame.type === "goaway") done.resolve();
  });
  await done.promise;
  if (socket.readyState === socket.OPEN) {
    socket.close();
    await once(socket, "close");
  }
  return frames;

  function hello(nonce: string): AgentFrame {
    const bytes = helloBytes(nonce, agent, "bare");
    return {
      type: "hello",
      protos: [1],
      agent,
      version: "0.1.0",
      platform: "test",
      runtime: "process",
      capabilities: [...AGENT_CAPABILITIES],
      keyGeneration,
      bootId: "bare",
      downAcked: 0,
      upHead: 0,
      upFrom: 1,
      journalId: "bare",
      jobs: [],
      clockMs: Date.now(),
      proof: sign(null, bytes, createPrivateKey(identityKey)).toString("base64"),
      ...changes,
    };
  }
}
