// The program that floods a server: a malicious agent with keys of its own, and a viewer's token, each
// sending as much as it can. Says when it has begun, and when told to stop, how much it sent.

import { setTimeout as sleep } from "node:timers/promises";
import { checkApp, createClient } from "@exclave/api";
import { connectAgent, joinVendorAgent, type ScriptedAgent } from "./scripted-agent.ts";

export interface Flood {
  readonly url: string;
  /** Of an administrator, to make the agent with. */
  readonly token: string;
  readonly viewer: string;
}

const CALLERS = 8;

process.once("message", (flood: Flood) => void run(flood));
process.on("disconnect", () => process.exit());

async function run({ url, token, viewer }: Flood): Promise<void> {
  const evil = await connectAgent(await joinVendorAgent({ url, token }, "build"));
  const stop = new AbortController();
  const sent = { frames: 0, calls: 0 };
  // What the flood still waits for when it is stopped is nobody's concern.
  void floodLink(evil, stop.signal, sent);
  for (let n = 0; n < CALLERS; n++) void floodCalls(url, viewer, stop.signal, sent);
  process.once("message", () => {
    stop.abort();
    process.send?.(sent);
  });
  process.send?.("begun");
}

async function floodLink(
  evil: ScriptedAgent,
  signal: AbortSignal,
  sent: { frames: number },
): Promise<void> {
  const job = "jbbbbbbbbbbbbbbbb";
  const text = "x".repeat(1_000);
  let seq = evil.memory.upHead;
  const over = new AbortController();
  void evil.closed.then(() => over.abort());
  const either = AbortSignal.any([signal, over.signal]);
  for (let n = 0; !either.aborted; n++) {
    evil.send({ type: "resend", from: 1 });
    evil.send({ type: "grant_want", job: job as never, attempt: n + 1 });
    evil.send({
      type: "event",
      seq: ++seq,
      body: { type: "alarm", at: 1, code: "x", because: text },
    });
    evil.sendLog(job, n + 1, 0, text);
    sent.frames += 4;
    // Many times what an agent may send, and not so much that this process holds it all.
    if (n % 4 === 0) await sleep(2);
  }
}

async function floodCalls(
  url: string,
  token: string,
  signal: AbortSignal,
  sent: { calls: number },
): Promise<void> {
  const client = createClient({ url, token });
  const keys = Array.from({ length: 20_000 }, (_, n) => `k${n}: "\${{ inputs.x }}"`).join("\n");
  const configs = ["[".repeat(200_000), keys, `a: &a 1\nb: [${"*a,".repeat(900)}]`];
  for (let n = 0; !signal.aborted; n++) {
    const config = configs[n % configs.length] ?? "";
    await client.call(checkApp, { body: { config } }).catch(() => undefined);
    sent.calls++;
  }
}
