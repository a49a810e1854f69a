// What a kubernetes component keeps in the install: the objects it applied, and every object it may own. It may
// hold secrets, so it is readable by its owner alone.

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { readIfThere, writeDurably, z } from "@exclave/plugin-sdk";
import { KubeObject } from "@exclave/plugin-sdk/kubernetes";

const ComponentState = z.object({
  version: z.literal(1),
  /** What was applied last. */
  objects: z.array(KubeObject),
  /** What an apply may have left behind beside it; kind, place and name alone. */
  leftovers: z.array(KubeObject),
  /** False from the moment an apply begins until it has succeeded. */
  isComplete: z.boolean(),
});
export type ComponentState = z.infer<typeof ComponentState>;

const FILE = "applied.json";

export async function readState(directory: string): Promise<ComponentState | undefined> {
  const text = await readIfThere(join(directory, FILE));
  return text === undefined ? undefined : ComponentState.parse(JSON.parse(text));
}

export async function keepState(directory: string, state: ComponentState): Promise<void> {
  await writeDurably(join(directory, FILE), JSON.stringify(state));
}

export async function forgetState(directory: string): Promise<void> {
  await rm(join(directory, FILE), { force: true });
}

/** Enough of an object to find it again. */
export function stub({ apiVersion, kind, metadata: { name, namespace } }: KubeObject): KubeObject {
  return { apiVersion, kind, metadata: { name, ...(namespace !== undefined && { namespace }) } };
}

/** Everything the component may own. */
export function ownedObjects(state: ComponentState | undefined): KubeObject[] {
  return state ? [...state.objects, ...state.leftovers].map(stub) : [];
}
