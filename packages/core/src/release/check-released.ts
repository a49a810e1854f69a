// Whether a manifest directs something that was released: every step equal to what a verified
// statement says of that component, of this app, and of no older release than the install has seen.
// The director chooses the release, the operation, the time, the inputs and the arguments of logs
// and exec; what decides which bytes run, and with which configuration, is the release's alone.

import { digestOf } from "../encoding/sha256.ts";
import type { FailureCode } from "../failure.ts";
import type { Digest } from "../ids.ts";
import type {
  ArtifactRef,
  Effect,
  Manifest,
  ManifestStep,
  Operation,
} from "../manifest/manifest.ts";
import { artifactKey } from "../plan/install-state.ts";
import { listedBy, type ReleaseStatement } from "./release-statement.ts";
import { directionTo, type ReleaseFloor } from "./rollback.ts";

export interface ReleasedFacts {
  /** What kind of agent asks. */
  readonly kind: "install" | "setup" | "build";
  /** The app the install is a copy of; absent for a setup agent, which serves all of them. */
  readonly app?: string | undefined;
  /** Verified statements of the releases the manifest names, by the digest of their index. */
  readonly statements: ReadonlyMap<Digest, ReleaseStatement>;
  /** The highest release this install was ever directed to; absent before the first. */
  readonly floor?: ReleaseFloor | undefined;
  /** Which releases each component is or may be deployed from, by its name. */
  readonly deployed: ReadonlyMap<string, readonly Digest[]>;
  /** Runners that the sandbox pinned or a verified statement lists. */
  readonly runners: readonly ArtifactRef[];
}

export type ReleasedVerdict =
  | { readonly kind: "ok"; readonly floor?: ReleaseFloor | undefined }
  | { readonly kind: "refused"; readonly code: ReleasedCode; readonly because: string };

export type ReleasedCode = Extract<
  FailureCode,
  "unreleased" | "downgrade" | "wrong_install" | "invalid"
>;

/** Operations that each kind of agent runs. */
const OPERATIONS: Readonly<Record<ReleasedFacts["kind"], readonly Operation[]>> = {
  install: ["sync", "plan", "apply", "destroy", "status", "logs", "exec"],
  setup: ["plan", "apply", "destroy", "status"],
  build: ["build", "assemble"],
};

/** Operations that concern what is deployed already, from whichever release that was. */
const LOOKS_BACK: ReadonlySet<Operation> = new Set(["destroy", "status", "logs", "exec"]);
/** Operations that carry an install to a release, and so raise its floor. */
const RAISES: ReadonlySet<Operation> = new Set(["sync", "plan", "apply"]);

/** What a director may hand to an operation; logs and exec take whatever they are asked. */
const PARAMETERS: Partial<Record<Operation, readonly string[]>> = {
  sync: ["mountFrom"],
  plan: [],
  apply: ["plan"],
  destroy: [],
  status: [],
};

export function checkReleased(manifest: Manifest, facts: ReleasedFacts): ReleasedVerdict {
  const { operation } = manifest;
  const [step, ...others] = manifest.steps;
  if (!step || others.length > 0) return refused("invalid", "a job is one step");
  if (step.operation !== operation) {
    const said = `the manifest says ${operation} and its step says ${step.operation}`;
    return refused("invalid", said);
  }
  if (!OPERATIONS[facts.kind].includes(operation)) {
    return refused("invalid", `${operation} is nothing that a ${facts.kind} agent does`);
  }
  // What is built is not released yet: the director's word is all there is.
  if (facts.kind === "build") return { kind: "ok" };

  const named = statementsOf(manifest, step, facts);
  if (!Array.isArray(named)) return named;
  return (
    refuseRelease(manifest, step, named, facts) ??
    refuseStep(manifest, step, named, facts) ?? {
      kind: "ok",
      ...raisedFloor(operation, named, facts),
    }
  );
}

type Refused = Extract<ReleasedVerdict, { kind: "refused" }>;

function statementsOf(
  { app, release, operation }: Manifest,
  step: ManifestStep,
  facts: ReleasedFacts,
): ReleaseStatement[] | Refused {
  const releases = step.releases ?? [];
  if (releases.length === 0) return refused("unreleased", "it names no release");
  if (releases.length > 1 && operation !== "sync") {
    return refused("invalid", `${operation} is of one release, and it names ${releases.length}`);
  }
  const named: ReleaseStatement[] = [];
  for (const index of releases) {
    const statement = facts.statements.get(index.digest);
    if (!statement || artifactKey(statement.index) !== artifactKey(index)) {
      return refused("unreleased", `no verified statement is about ${artifactKey(index)}`);
    }
    named.push(statement);
  }
  const own = facts.app ?? app;
  const foreign = named.find((statement) => statement.app !== own);
  if (foreign || app !== own) {
    const whose = foreign ? `a release of ${foreign.appName} (${foreign.app})` : `for ${app}`;
    return refused("wrong_install", `it is ${whose}, and this is an install of ${own}`);
  }
  if (release !== undefined && !named.some((statement) => statement.release === release)) {
    return refused("unreleased", `it says release ${release} and names the statement of another`);
  }
  return named;
}

/** No way back below the highest release that was seen, except the one that release allows. */
function refuseRelease(
  { operation, rollback }: Manifest,
  { component }: ManifestStep,
  named: readonly ReleaseStatement[],
  { floor, deployed }: ReleasedFacts,
): Refused | undefined {
  if (!floor) return undefined;
  const there =
    operation === "sync"
      ? [...deployed.values()].flat()
      : LOOKS_BACK.has(operation)
        ? (deployed.get(component ?? "") ?? [])
        : [];
  for (const statement of named) {
    if (there.includes(statement.index.digest)) continue;
    const direction = directionTo(statement, floor);
    if (direction.kind === "refused") return refused("downgrade", direction.because);
    if (direction.kind === "rollback" && !rollback) {
      const older = `release ${statement.versionName} is older than what this install has seen`;
      return refused("downgrade", `${older}, and it is not directed as a rollback`);
    }
  }
  return undefined;
}

function refuseStep(
  { operation }: Manifest,
  step: ManifestStep,
  named: readonly ReleaseStatement[],
  facts: ReleasedFacts,
): Refused | undefined {
  const listed = new Set(named.flatMap(listedBy).map(artifactKey));
  const stranger = step.materials.find((material) => !listed.has(artifactKey(material)));
  if (stranger) return refused("unreleased", `no named release lists ${artifactKey(stranger)}`);
  if (operation === "sync") return refuseSync(step, named, facts);

  const [statement] = named;
  if (!statement) return refused("unreleased", "it names no release");
  const expected =
    facts.kind === "setup" ? expectedSandbox(step, statement) : expectedComponent(step, statement);
  if (!expected) {
    const what = facts.kind === "setup" ? `sandbox ${step.type}` : `component ${step.component}`;
    return refused("unreleased", `release ${statement.versionName} has no ${what}`);
  }
  return refuseDifference(operation, step, expected, facts.kind);
}

function refuseSync(
  step: ManifestStep,
  named: readonly ReleaseStatement[],
  { runners }: ReleasedFacts,
): Refused | undefined {
  const known = [...runners, ...named.map(({ runner }) => runner)].map(artifactKey);
  if (!known.includes(artifactKey(step.plugin))) {
    const plugin = artifactKey(step.plugin);
    return refused("unreleased", `${plugin} is no runner that was pinned or released`);
  }
  const { component, type, artifact, config, effect } = step;
  if (component !== undefined || type !== undefined || artifact !== undefined) {
    return refused("unreleased", "a sync is about no component");
  }
  if (Object.keys(config).length > 0) return refused("unreleased", "a sync has no configuration");
  if (effect !== "idempotent") return refused("unreleased", "a sync is idempotent");
  return refuseParameters("sync", step);
}

interface Expected {
  readonly what: string;
  readonly type: string;
  readonly plugin: ArtifactRef;
  readonly artifact: ArtifactRef | undefined;
  /** Absent where the configuration is not the release's to say. */
  readonly configDigest?: Digest;
  readonly effect: Effect | undefined;
}

function expectedComponent(
  { component, operation }: ManifestStep,
  { components }: ReleaseStatement,
): Expected | undefined {
  const found = components.find(({ name }) => name === component);
  if (!found) return undefined;
  const { name, type, plugin, artifact, configDigest, effects } = found;
  return { what: name, type, plugin, artifact, configDigest, effect: effectOf(effects, operation) };
}

/** A sandbox is handed the runner to seed its registry with; where and how is the director's. */
function expectedSandbox(
  { type, operation }: ManifestStep,
  { sandboxes, runner }: ReleaseStatement,
): Expected | undefined {
  const found = sandboxes.find((sandbox) => sandbox.type === type);
  if (!found) return undefined;
  const { image, effects } = found;
  const artifact = operation === "apply" || operation === "plan" ? runner : undefined;
  const what = `sandbox ${found.type}`;
  return { what, type: found.type, plugin: image, artifact, effect: effectOf(effects, operation) };
}

function effectOf(effects: Partial<Record<string, Effect>>, operation: Operation) {
  return effects[operation];
}

function refuseDifference(
  operation: Operation,
  step: ManifestStep,
  expected: Expected,
  kind: ReleasedFacts["kind"],
): Refused | undefined {
  const { what, type, plugin, artifact, configDigest, effect } = expected;
  if (step.type !== type) {
    return refused("unreleased", `${what} is a ${type}, and the manifest says ${step.type}`);
  }
  if (artifactKey(step.plugin) !== artifactKey(plugin)) {
    return refused(
      "unreleased",
      `${artifactKey(step.plugin)} is not the released plugin of ${what}`,
    );
  }
  if (!isSameArtifact(step.artifact, artifact)) {
    const given = step.artifact ? artifactKey(step.artifact) : "no artifact";
    return refused("unreleased", `${given} is not what was released as ${what}`);
  }
  if (configDigest !== undefined && digestOf(step.config) !== configDigest) {
    return refused("unreleased", `the configuration of ${what} is not the released one`);
  }
  if (effect === undefined) return refused("unreleased", `a ${type} has no ${operation}`);
  if (step.effect !== effect) {
    return refused("unreleased", `${operation} of ${what} is ${effect}, not ${step.effect}`);
  }
  return kind === "install" ? refuseParameters(operation, step) : undefined;
}

function isSameArtifact(given: ArtifactRef | undefined, expected: ArtifactRef | undefined) {
  if (!given || !expected) return given === expected;
  return artifactKey(given) === artifactKey(expected);
}

function refuseParameters(operation: Operation, { parameters }: ManifestStep): Refused | undefined {
  const known = PARAMETERS[operation];
  const stranger = known && Object.keys(parameters).find((name) => !known.includes(name));
  if (stranger === undefined) return undefined;
  return refused("unreleased", `${operation} takes no parameter ${stranger}`);
}

function raisedFloor(
  operation: Operation,
  named: readonly ReleaseStatement[],
  { floor }: ReleasedFacts,
): { floor?: ReleaseFloor } {
  if (!RAISES.has(operation)) return {};
  const [highest] = named.toSorted((a, b) => b.number - a.number);
  if (!highest || (floor && highest.number <= floor.number)) return {};
  const { number, rollbackTo } = highest;
  return { floor: { number, numberMin: rollbackTo.numberMin } };
}

function refused(code: ReleasedCode, because: string): Refused {
  return { kind: "refused", code, because };
}
