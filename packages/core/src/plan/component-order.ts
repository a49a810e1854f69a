// What a step of the plan becomes as a job: what its apply leaves behind, why the job exists, and the step
// its manifest carries.

import type { AppConfig } from "../app/app-config.ts";
import { inputValues } from "../app/input-value.ts";
import type { ComponentPurpose, Trace } from "../consequence/component-end.ts";
import type { Deployed } from "../consequence/deployed.ts";
import { unreachable } from "../failure.ts";
import type { ArtifactRef, ManifestStep } from "../manifest/manifest.ts";
import { effectsOf, type PluginDescriptor } from "../plugin-descriptor.ts";
import type { ComponentStep, Step } from "./plan-install.ts";

/** Unless a component says otherwise. */
export const STATUS_EVERY_MS = 30_000;

export interface OrderFacts {
  /** What the last apply left, or the one before it that did not finish. */
  readonly there: Deployed | null;
  readonly release?:
    | {
        readonly id: string;
        readonly plugins: readonly {
          readonly type: string;
          readonly descriptor: PluginDescriptor;
        }[];
      }
    | undefined;
  readonly app?: Pick<AppConfig, "inputs" | "secrets" | "components"> | undefined;
  /** As the install was given them. */
  readonly inputs: Readonly<Record<string, unknown>>;
}

/** What an apply of this step leaves; for a destroy, and an apply of what is there, just that. */
export function deployedBy(step: ComponentStep, facts: OrderFacts): Deployed {
  const { there, release, app, inputs } = facts;
  if ((step.kind === "destroy" || step.isAsIs) && there) return there;
  const descriptor = release?.plugins.find(({ type }) => type === step.type)?.descriptor;
  return {
    deployKey: step.deployKey,
    type: step.type,
    plugin: step.plugin,
    ...(step.artifact ? { artifact: step.artifact } : {}),
    config: { ...step.config },
    inputs: app ? inputValues(app, inputs) : {},
    generatedSecrets: (app?.secrets ?? []).flatMap(({ name, generate }) =>
      generate ? [{ name, ...generate }] : [],
    ),
    dependsOn: [...step.dependsOn],
    effects: descriptor ? effectsOf(descriptor) : {},
    release: release?.id ?? "",
    ...(descriptor?.operations.status ? { statusEveryMs: statusEveryMs(step, app) } : {}),
  };
}

function statusEveryMs({ component }: ComponentStep, app: OrderFacts["app"]): number {
  const seconds = app?.components.find(({ name }) => name === component)?.statusEverySeconds;
  return seconds === undefined ? STATUS_EVERY_MS : seconds * 1_000;
}

export function purposeOf<Left extends Trace>(
  step: ComponentStep,
  deployed: Left,
): ComponentPurpose<Left> {
  switch (step.kind) {
    case "apply":
      return { kind: "apply", deployed };
    case "plan":
      return { kind: "plan", deployKey: step.deployKey, type: step.type };
    case "destroy":
      return { kind: "destroy" };
    default:
      return unreachable(step.kind);
  }
}

export function manifestStepOf(
  step: ComponentStep,
  { effects }: Pick<Deployed, "effects">,
  index: ArtifactRef | undefined,
): ManifestStep {
  return {
    operation: step.kind,
    plugin: step.plugin,
    component: step.component,
    type: step.type,
    ...(step.artifact ? { artifact: step.artifact } : {}),
    config: { ...step.config },
    parameters: step.plan ? { plan: step.plan } : {},
    effect: effects[step.kind] ?? "idempotent",
    materials: [],
    releases: index ? [index] : [],
  };
}

export interface DirectedFloor {
  readonly release: string;
  readonly number: number;
  readonly numberMin: number;
}

/** The highest release an install was directed to: from there on everything older is a rollback. */
export function floorAfter(
  floor: DirectedFloor | null,
  release: {
    readonly id: string;
    readonly number: number;
    readonly rollbackNumberMin: number | null;
  },
  steps: readonly (Pick<Step, "kind"> & { readonly isAsIs?: boolean })[],
): DirectedFloor | null {
  const isDirected = steps.some(({ kind, isAsIs }) => kind !== "destroy" && !isAsIs);
  const { id, number, rollbackNumberMin } = release;
  if (!isDirected || number <= (floor?.number ?? 0)) return floor;
  return { release: id, number, numberMin: rollbackNumberMin ?? number };
}
