// A setup agent whose sandboxes come up at once, and install agents whose jobs do what a test says.

import { decodeJoinString } from "@exclave/api";
import { digestOf, type Manifest } from "@exclave/core";
import {
  type AgentMemory,
  connectAgent,
  type Ending,
  type Identity,
  join,
  joinVendorAgent,
  newMemory,
  type ScriptedAgent,
} from "./scripted-agent.ts";
import type { TestServer } from "./test-server.ts";

export interface ScriptedInstall {
  readonly setup: ScriptedAgent;
  /** What the install's agent was told to do, in order: `apply api`. */
  readonly done: string[];
  /** Jobs of the install's agent, as they came. */
  readonly manifests: Manifest[];
  /** What the next run of an operation on a component ends with. */
  readonly endings: Map<string, Ending>;
  /** Operations that go on until the test ends them. */
  readonly leaveRunning: Set<string>;
  agent(): ScriptedAgent | undefined;
  identity(): Identity | undefined;
  readonly memory: AgentMemory;
  reconnect(url?: string): Promise<ScriptedAgent>;
}

export async function scriptedInstall(server: TestServer): Promise<ScriptedInstall> {
  const done: string[] = [];
  const manifests: Manifest[] = [];
  const endings = new Map<string, Ending>();
  const leaveRunning = new Set<string>();
  const memory = newMemory();
  let agent: ScriptedAgent | undefined;
  let identity: Identity | undefined;

  const setup = await connectAgent(await joinVendorAgent(server, "setup"), {
    async onJob(manifest) {
      const [step] = manifest.steps;
      const joinString = step?.parameters["joinString"];
      done.push(`sandbox ${manifest.operation}`);
      const planned = taken(`sandbox ${manifest.operation}`);
      if (planned) return planned;
      if (typeof joinString === "string" && decodeJoinString(joinString)) {
        identity = await join(joinString);
        agent = await connectAgent(identity, { onJob }, memory);
      } else {
        await agent?.disconnect();
      }
      return {};
    },
  });

  return {
    setup,
    done,
    manifests,
    endings,
    leaveRunning,
    memory,
    agent: () => agent,
    identity: () => identity,
    async reconnect(url) {
      if (!identity) throw new Error("there is no agent yet");
      agent = await connectAgent(identity, { onJob }, memory, url ?? identity.url);
      return agent;
    },
  };

  async function onJob(manifest: Manifest): Promise<Ending | undefined> {
    const [step] = manifest.steps;
    const name = `${manifest.operation} ${step?.component ?? ""}`.trim();
    done.push(name);
    manifests.push(manifest);
    if (leaveRunning.has(name)) return undefined;
    const planned = taken(name);
    if (planned) return planned;
    if (manifest.operation === "plan") {
      const digest = digestOf({ plan: manifest.id });
      const plan = { digest, risk: "change" as const, summary: "1 to add" };
      return { result: { type: "result", ok: true, plan } };
    }
    if (manifest.operation !== "apply") return {};
    const outputs = [
      { name: "url", sensitive: false, value: `http://${step?.component}` },
      { name: "password", sensitive: true },
    ];
    return { outputs, outputsDigest: digestOf({ artifact: step?.artifact, config: step?.config }) };
  }

  function taken(name: string): Ending | undefined {
    const ending = endings.get(name);
    endings.delete(name);
    return ending;
  }
}
