// The component types a server knows: what an app is checked against.

import { setTimeout as sleep } from "node:timers/promises";
import {
  type AgentView,
  type Client,
  listAgents,
  listPlugins,
  type PluginView,
} from "@exclave/api";
import { asFailure, type PluginDescriptor } from "@exclave/core";
import type { Cli } from "./cli.ts";
import { listAll } from "./pages.ts";
import { CliProblem } from "./problem.ts";

const PATIENCE_MS = 60_000;

/**
 * The descriptors the server has. Right after its first start it has none yet: the build agent
 * publishes them once it is connected, so while one is there this waits for it.
 */
export async function knownPlugins(cli: Cli, client: Client): Promise<PluginDescriptor[]> {
  const { now, signal } = cli.world;
  const endsAt = now() + PATIENCE_MS;
  let isTold = false;
  for (;;) {
    const plugins = await listAll<PluginView>(client, listPlugins);
    const isComing = plugins.length === 0 && now() < endsAt && (await hasBuildAgent(client));
    if (!isComing) return plugins.map(({ descriptor }) => descriptor);
    if (!isTold) cli.say("waiting for the build agent to publish the component types");
    isTold = true;
    await sleep(300, undefined, { signal });
  }
}

/** The same, or undefined, with a remark, where no server can be asked. */
export async function reachablePlugins(cli: Cli): Promise<PluginDescriptor[] | undefined> {
  try {
    return await knownPlugins(cli, await cli.connect());
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
