// Small things done to an engine the same way everywhere: each can be done again and finds what is there.

import { setTimeout as sleep } from "node:timers/promises";
import { Failure, z } from "@exclave/plugin-sdk";
import {
  type EngineClient,
  enginePath,
  LABELS,
  type Owner,
  ownedArchive,
} from "@exclave/plugin-sdk/engine";
import type { Names } from "./names.ts";

export async function makeNetwork(engine: EngineClient, { owner, network }: Names): Promise<void> {
  const found = await engine.find(`/networks/${network}`, z.unknown());
  if (found !== undefined) return;
  const json = { Name: network, CheckDuplicate: true, Labels: { [LABELS.owner]: owner } };
  await engine.send("POST", "/networks/create", { json, expected: [409] });
}

export async function makeVolumes(engine: EngineClient, { owner, volumes }: Names): Promise<void> {
  for (const Name of Object.values(volumes)) {
    const json = { Name, Labels: { [LABELS.owner]: owner } };
    await engine.send("POST", "/volumes/create", { json, expected: [409] });
  }
}

/** Asked, then killed; absent is not an error. */
export async function removeContainer(
  engine: EngineClient,
  name: string,
  graceSeconds: number,
): Promise<void> {
  await engine.send("POST", enginePath(`/containers/${name}/stop`, { t: graceSeconds }), {
    expected: [304, 404, 500],
    timeoutMs: (graceSeconds + 30) * 1_000,
  });
  await engine.send("DELETE", enginePath(`/containers/${name}`, { force: 1 }), { expected: [404] });
}

export interface GivenFiles {
  readonly owner: Owner;
  /** Of the directory itself. */
  readonly mode?: number;
  readonly files?: Readonly<Record<string, string>>;
}

/** Into a container's volume, through the engine. */
export async function giveFiles(
  engine: EngineClient,
  id: string,
  path: string,
  { owner, mode = 0o700, files = {} }: GivenFiles,
): Promise<void> {
  const target = enginePath(`/containers/${id}/archive`, { path });
  await engine.send("PUT", target, { archive: ownedArchive({ owner, mode, files }) });
}

const State = z.object({ State: z.object({ Status: z.string(), ExitCode: z.number() }) });
const Made = z.object({ Id: z.string() });
const RUN_MS = 10 * 60_000;

/** Runs a container to its end, and fails with its last words if that was a bad one. */
export async function runOnce(
  engine: EngineClient,
  name: string,
  order: object,
  prepare: (id: string) => Promise<void>,
): Promise<void> {
  const remove = () =>
    engine.send("DELETE", enginePath(`/containers/${name}`, { force: 1 }), { expected: [404] });
  await remove();
  await engine.send("POST", enginePath("/containers/create", { name }), { json: order });
  try {
    const { Id } = await engine.read(`/containers/${name}/json`, Made);
    await prepare(Id);
    await engine.send("POST", `/containers/${Id}/start`, { expected: [304] });
    const until = performance.now() + RUN_MS;
    for (;;) {
      const { State: state } = await engine.read(`/containers/${Id}/json`, State);
      if (state.Status === "exited" || state.Status === "stopped") {
        if (state.ExitCode === 0) return;
        const message = `${name} ended with ${state.ExitCode}: ${await engine.lastWords(Id)}`;
        throw new Failure("plugin", message);
      }
      if (performance.now() > until) throw new Failure("timeout", `${name} does not end`);
      await sleep(100);
    }
  } finally {
    await remove();
  }
}
