// What keeps an install on an engine from being whole.

import { setTimeout as sleep } from "node:timers/promises";
import { Failure, type OperationContext, z } from "@exclave/plugin-sdk";
import { type EngineClient, enginePath } from "@exclave/plugin-sdk/engine";
import { type Names, PLACES, SOCKETS, SYSTEM_PARTS, type SystemPart } from "./names.ts";

const Container = z.object({ State: z.object({ Status: z.string() }) });

/** In words; undefined when nothing does. */
export async function findProblem(
  engine: EngineClient,
  names: Names,
  parts: readonly SystemPart[] = SYSTEM_PARTS,
): Promise<string | undefined> {
  for (const part of parts) {
    const name = names.containers[part];
    const found = await engine.find(`/containers/${name}/json`, Container);
    if (!found) return `there is no container ${name}`;
    const { Status } = found.State;
    if (Status !== "running") return `the container ${name} is ${Status}`;
  }
  const holds = (part: SystemPart, path: string) =>
    engine.has(enginePath(`/containers/${names.containers[part]}/archive`, { path }));
  if (parts.includes("registry")) {
    const socket = `${PLACES.sockets}/${SOCKETS.registry}`;
    if (!(await holds("registry", socket))) return "the registry does not listen yet";
  }
  if (!parts.includes("agent")) return undefined;
  const home = `${PLACES.home}/agent`;
  if (await holds("agent", `${PLACES.home}/join`)) return "the agent has not joined yet";
  if (!(await holds("agent", `${home}/identity.json`))) return "the agent has not joined yet";
  if (!(await holds("agent", `${home}/trust.json`))) return "the agent has lost its trust document";
  return undefined;
}

export async function waitUntilReady(
  context: Pick<OperationContext<unknown>, "progress" | "signal">,
  engine: EngineClient,
  names: Names,
  withinMs: number,
): Promise<void> {
  const until = performance.now() + withinMs;
  let shown: string | undefined;
  for (;;) {
    const problem = await findProblem(engine, names);
    if (problem === undefined) return;
    if (problem !== shown) context.progress(problem);
    shown = problem;
    if (context.signal.aborted) throw new Failure("cancelled", "stopped while the install came up");
    if (performance.now() >= until) {
      const said = await Promise.all(
        SYSTEM_PARTS.map(async (part) => {
          const words = await engine.lastWords(names.containers[part]).catch(() => "");
          return words && `. ${part} said: ${words}`;
        }),
      );
      throw new Failure("timeout", `the install did not come up: ${problem}${said.join("")}`);
    }
    await sleep(200);
  }
}
