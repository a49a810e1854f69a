// The component types a server knows: what an app is checked against.

import { setTimeout as sleep } from "node:timers/promises";
import { type AgentView, type Client, listAgents, listPlugins } from "@exclave/api";
import { asFailure, type PluginDescriptor } from "@exclave/core";
import { listAll } from "../connection/pages.ts";
import type { Cli } from "../program/cli.ts";
import { CliProblem } from "../program/problem.ts";

export interface KnownTypes {
  readonly plugins: readonly PluginDescriptor[];
  /** Absent while none is published. */
  readonly sandboxes?: readonly string[];
}

const PATIENCE_MS = 60_000;

/**
 * The descriptors the server has. Right after its first start it has none yet: the build agent
 * publishes them once it is connected, so while one is there this waits for it.
 */
export async function knownTypes(cli: Cli, client: Client): Promise<KnownTypes> {
  const { now, signal } = cli.invocation;
  const endsAt = now() + PATIENCE_MS;
  let isTold = false;
  for (;;) {
    const { items, sandboxes } = await client.call(listPlugins);
    const isComing = items.length === 0 && now() < endsAt && (await hasBuildAgent(client));
    if (!isComing) {
      const plugins = items.map(({ descriptor }) => descriptor);
      return { plugins, ...(sandboxes.length > 0 ? { sandboxes } : {}) };
    }
    if (!isTold) cli.say("waiting for the build agent to publish the component types");
    isTold = true;
    await sleep(300, undefined, { signal });
  }
}

/** The same, or undefined, with a remark, where no server can be asked. */
export async function reachableTypes(cli: Cli): Promise<KnownTypes | undefined> {
  try {
    return await knownTypes(cli, await cli.connect());
  } catch (reason) {
    const because = reason instanceof CliProblem ? reason.message : asFailure(reason).message;
    cli.say(`without the rules of the component types: ${because}`);
    return undefined;
  }
}

async function hasBuildAgent(client: Client): Promise<boolean> {
  const agents = await listAll<AgentView>(client, listAgents);
  return agents.some(({ kind, status }) => kind === "build" && status === "online");
}
