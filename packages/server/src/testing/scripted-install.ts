// A setup agent whose sandboxes come up at once, and install agents whose jobs do what a test says.

import type { AgentEvent, RejectCode } from "@exclave/api";
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
  /** What every run of an operation on a component ends with, as long as it is here. */
  readonly always: Map<string, Ending>;
  /** The code the next offer of an operation on a component is refused with. */
  readonly refusals: Map<string, RejectCode>;
  /** What the setup agent was given, as it came. */
  readonly joinStrings: readonly string[];
  /** Operations that go on until the test ends them. */
  readonly leaveRunning: Set<string>;
  agent(): ScriptedAgent | undefined;
  identity(): Identity | undefined;
  memory(): AgentMemory;
  reconnect(url?: string): Promise<ScriptedAgent>;
}

export async function scriptedInstall(server: TestServer): Promise<ScriptedInstall> {
  const done: string[] = [];
  const joinStrings: string[] = [];
  const manifests: Manifest[] = [];
  const endings = new Map<string, Ending>();
  const always = new Map<string, Ending>();
  const refusals = new Map<string, RejectCode>();
  const leaveRunning = new Set<string>();
  let memory = newMemory();
  let agent: ScriptedAgent | undefined;
  let identity: Identity | undefined;

  const setup = await connectAgent(await joinVendorAgent(server, "setup"), {
    async onJob(manifest, self) {
      const { joinString } =
        manifest.joinFor === undefined ? {} : await self.joinString(manifest.id);
      if (joinString !== undefined) joinStrings.push(joinString);
      done.push(`sandbox ${manifest.operation}`);
      if (leaveRunning.has(`sandbox ${manifest.operation}`)) return undefined;
      const planned = taken(`sandbox ${manifest.operation}`);
      if (planned) return planned;
      if (joinString !== undefined) {
        const before = identity?.agent;
        identity = await join(joinString);
        // Another install's agent has a home, and so a journal, of its own.
        if (before !== undefined && before !== identity.agent) memory = newMemory();
        agent = await connectAgent(identity, { onJob, onOffer }, memory);
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
    joinStrings,
    endings,
    always,
    refusals,
    leaveRunning,
    memory: () => memory,
    agent: () => agent,
    identity: () => identity,
    async reconnect(url) {
      if (!identity) throw new Error("there is no agent yet");
      agent = await connectAgent(identity, { onJob, onOffer }, memory, url ?? identity.url);
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

  function onOffer(manifest: Manifest): AgentEvent[] | undefined {
    const { id: job, attempt, operation, steps } = manifest;
    const name = `${operation} ${steps[0]?.component ?? ""}`.trim();
    const code = refusals.get(name);
    if (!refusals.delete(name) || !code) return undefined;
    return [{ type: "job_rejected", job, attempt, at: 1, code, because: "the test says so" }];
  }

  function taken(name: string): Ending | undefined {
    const ending = endings.get(name);
    endings.delete(name);
    return ending ?? always.get(name);
  }
}
