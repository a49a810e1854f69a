// Builders for planner tests: everything a test is not about.

import assert from "node:assert/strict";
import type { LastFailure } from "../consequence/failed-attempts.ts";
import { digestOf } from "../encoding/sha256.ts";
import { ComponentName, ComponentType, type Digest, InstallName, Instant, JobId } from "../ids.ts";
import type { ArtifactRef } from "../manifest/manifest.ts";
import { deployKey } from "./deploy-key.ts";
import {
  artifactKey,
  type DeployedComponent,
  type Seen,
  type SeenComponent,
  type Wanted,
  type WantedComponent,
} from "./install-state.ts";
import { type InstallPlan, planInstall, type Step } from "./plan-install.ts";

export const named = (name: string): ComponentName => ComponentName.parse(name);
export const now = Instant.parse(1_000_000_000);
export const job = JobId.parse("jabcdefghijklmnop");
export const runner = ref("exclave/runner", "runner-1");

export function ref(repository: string, content: string): ArtifactRef {
  return { repository, digest: digestOf(content) };
}

export interface Sketch {
  readonly version?: string;
  readonly type?: string;
  readonly needs?: readonly string[];
  readonly reads?: readonly string[];
  readonly plannable?: boolean;
  readonly config?: Record<string, unknown>;
}

export function component(name: string, sketch: Sketch = {}): WantedComponent {
  const { version = "1", type = "command", needs = [], reads = [], plannable = false } = sketch;
  return {
    name: named(name),
    type: ComponentType.parse(type),
    artifact: ref(`apps/crm/${name}`, `${name}-${version}`),
    plugin: ref(`exclave/plugins/${type}`, `plugin-${type}`),
    config: sketch.config ?? {},
    inputs: {},
    references: reads.map(named),
    dependsOn: [...needs, ...reads].map(named),
    plannable,
  };
}

export function wanted(components: WantedComponent[], changes: Partial<Wanted> = {}): Wanted {
  return {
    install: InstallName.parse("acme"),
    app: "crm",
    channel: "stable",
    mode: "present",
    runner,
    components,
    allowDestroy: new Set(),
    ...changes,
  };
}

export interface SeenSketch extends Partial<Omit<Seen, "components">> {
  readonly components?: Record<string, SeenComponent>;
}

export function seen({ components = {}, ...rest }: SeenSketch = {}): Seen {
  const entries = Object.entries(components).map(([name, there]) => [named(name), there] as const);
  return { agent: { status: "online" }, synced: new Set(), ...rest, components: new Map(entries) };
}

/** Everything these need, as if a sync had brought it. */
export function syncedFor(...components: WantedComponent[]): Seen["synced"] {
  const refs = components.flatMap(({ artifact, plugin }) =>
    artifact ? [artifact, plugin] : [plugin],
  );
  return new Set([runner, ...refs].map(artifactKey));
}

export function deployedAs(
  want: WantedComponent,
  others: Record<string, SeenComponent> = {},
  outputs = "outputs",
): DeployedComponent {
  const key: Digest = deployKey(want, seen({ components: others }).components);
  const { type, artifact, plugin, config, dependsOn } = want;
  const trace = {
    deployKey: key,
    type,
    plugin,
    config,
    dependsOn,
    outputsDigest: digestOf(outputs),
  };
  return artifact ? { ...trace, artifact } : trace;
}

export function plan(
  components: WantedComponent[],
  state: SeenSketch = {},
  changes: { now?: Instant } = {},
): InstallPlan {
  return planInstall({ wanted: wanted(components), seen: seen(state), now, ...changes });
}

export function kinds(steps: readonly Step[]): string[] {
  return steps.map((step) => (step.kind === "sync" ? "sync" : `${step.kind} ${step.component}`));
}

export function materialsOf(step: Step | undefined): string[] {
  assert.equal(step?.kind, "sync");
  return step.kind === "sync" ? step.materials.map(({ name }) => name) : [];
}

export function planOf(want: WantedComponent) {
  const key = deployKey(want, new Map());
  return {
    deployKey: key,
    digest: digestOf("plan"),
    risk: "change",
    summary: "1 to add",
    at: now,
  } as const;
}

export function failed(want: WantedComponent, changes: Partial<LastFailure> = {}): LastFailure {
  const key = deployKey(want, new Map());
  const failure = { operation: "apply", code: "tool", message: "exit 1", attempts: 1 } as const;
  return { ...failure, key, at: now, ...changes };
}
