// What an apply makes is written down here the moment it is made. Terraform records each resource in
// its state at once; OpenTofu does so at most every 20 seconds and refuses a shorter interval, so a
// kill in between leaves things in the world that no state knows, and the next apply would make them
// again. With this list the next job takes them into the state first.

import { appendFileSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { Failure, z } from "@exclave/plugin-sdk";
import type { ComponentState, StateFacts } from "./component-state.ts";
import type { Workspace } from "./workspace.ts";

export const MadeResource = z.object({ address: z.string(), id: z.string().optional() });
export type MadeResource = z.infer<typeof MadeResource>;

export function noteMade({ madeFile }: ComponentState, resource: MadeResource): void {
  appendFileSync(madeFile, `${JSON.stringify(resource)}\n`, { mode: 0o600 });
}

/** What the last apply made and the state does not hold. */
export async function findUnrecorded(
  { madeFile }: ComponentState,
  facts: StateFacts | undefined,
): Promise<MadeResource[]> {
  const text = await readFile(madeFile, "utf8").catch(() => "");
  const recorded = new Set(facts ? addressesOf(facts) : []);
  return readMade(text).filter(({ address }) => !recorded.has(address));
}

export function addressesOf({ resources }: StateFacts): string[] {
  return resources
    .filter(({ mode }) => mode === "managed")
    .flatMap(({ module, type, name, instances }) =>
      instances.map(({ index_key: key }) => {
        const index = key === undefined ? "" : `[${JSON.stringify(key)}]`;
        return `${module ? `${module}.` : ""}${type}.${name}${index}`;
      }),
    );
}

/** Takes what is unrecorded into the state, so that nothing is made twice. */
export async function recordUnrecorded(
  workspace: Pick<Workspace, "take">,
  unrecorded: readonly MadeResource[],
  log: (message: string) => void,
): Promise<void> {
  for (const resource of unrecorded) {
    const { address, id = "no id" } = resource;
    const problem = await workspace.take(resource);
    if (problem === undefined) {
      log(`${address} (${id}) was made by a job that was killed; it is in the state now`);
    } else if (isHarmless(problem)) {
      log(`${address} (${id}) was made by a job that was killed and is not taken over: ${problem}`);
    } else {
      const message = `${address} (${id}) was made by a job that was killed and cannot be taken into the state: ${problem}`;
      throw new Failure("conflict", message);
    }
  }
}

export async function forgetMade({ madeFile }: ComponentState): Promise<void> {
  await rm(madeFile, { force: true });
}

/**
 * It is gone already, or of a kind that lives in the state alone: what a provider cannot look up by
 * a name it does not keep anywhere else either.
 */
function isHarmless(problem: string): boolean {
  return /non-existent remote object|does(n't| not) support import|no name of its own/i.test(
    problem,
  );
}

/** The last line may be cut off by the kill that makes this list worth reading. */
function readMade(text: string): MadeResource[] {
  return text.split("\n").flatMap((line) => {
    try {
      return MadeResource.parse(JSON.parse(line));
    } catch {
      return [];
    }
  });
}
