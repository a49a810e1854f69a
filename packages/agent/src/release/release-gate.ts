// The last door before a job: whatever a director signed, it passes only if a verified statement says
// the same. Gathers what the pure check needs, and gives back what has to be in the journal before
// the first byte is pulled.

import type { AgentKind, Grant } from "@exclave/api";
import {
  type ArtifactRef,
  checkReleased,
  type Digest,
  Failure,
  type Manifest,
  type ReleaseStatement,
} from "@exclave/core";
import { installOf } from "../core/job-record.ts";
import type { JournalWrite } from "../journal/journal.ts";
import type { ReleaseMemory } from "../journal/release-memory.ts";
import type { FindStatement, ReleaseFound } from "./find-statements.ts";

export interface ReleaseGate {
  /** Fails with the refusal unless everything the manifest directs was released. */
  admit(manifest: Manifest, grant: Grant | undefined): Promise<Admitted>;
  /** The status of what this manifest applied, as its release has it. */
  statusOf(applied: Manifest): Promise<Manifest>;
}

export interface Admitted {
  /** To be journaled before anything is pulled. */
  readonly writes: readonly JournalWrite[];
  /** Where the statements themselves lie, by the vendor's names: a sync brings them along. */
  readonly statements: readonly (ArtifactRef & { readonly name: string })[];
}

export interface ReleaseGateOptions {
  readonly kind: AgentKind;
  /** The app this agent's install is a copy of, where it pinned one. */
  readonly app?: string | undefined;
  /** The runner that setup put into the install's registry. */
  readonly pinnedRunner?: ArtifactRef | undefined;
  readonly memory: ReleaseMemory;
  readonly find: FindStatement;
}

export function createReleaseGate(options: ReleaseGateOptions): ReleaseGate {
  const { kind, app, pinnedRunner, memory, find } = options;
  return { admit, statusOf };

  async function admit(manifest: Manifest, grant: Grant | undefined): Promise<Admitted> {
    const named = kind === "build" ? [] : await findAll(manifest, grant);
    const install = installOf(manifest);
    const verdict = checkReleased(manifest, {
      kind,
      app,
      statements: new Map(named.map(({ kept, statement }) => [kept.index, statement])),
      ...memory.releases(install),
      runners: manifest.operation === "sync" ? runners() : [],
    });
    if (verdict.kind === "refused") throw new Failure(verdict.code, verdict.because);
    return {
      writes: writesFor(manifest, named, verdict.floor),
      statements: named.map(({ kept: { artifact }, statement }) => ({
        name: "statement",
        repository: statement.index.repository,
        digest: artifact,
      })),
    };
  }

  async function findAll(
    { steps }: Manifest,
    grant: Grant | undefined,
  ): Promise<readonly ReleaseFound[]> {
    const indexes = new Map(
      steps.flatMap(({ releases = [] }) => releases.map((index) => [index.digest, index] as const)),
    );
    const found: ReleaseFound[] = [];
    for (const index of indexes.values()) found.push(await find(index, grant));
    return found;
  }

  function runners(): ArtifactRef[] {
    const released = find.kept().map(({ runner }) => runner);
    return pinnedRunner ? [pinnedRunner, ...released] : released;
  }

  async function statusOf(applied: Manifest): Promise<Manifest> {
    const [step] = applied.steps;
    const [index] = step?.releases ?? [];
    if (!step || !index) throw new Failure("unreleased", "what was applied names no release");
    const { statement } = await find(index, undefined);
    const effect = statusEffect(statement, step.component) ?? step.effect;
    const status = { ...step, operation: "status" as const, parameters: {}, effect };
    return { ...applied, operation: "status", steps: [status] };
  }
}

function statusEffect({ components }: ReleaseStatement, name: string | undefined) {
  return components.find((component) => component.name === name)?.effects.status;
}

function writesFor(
  manifest: Manifest,
  named: readonly ReleaseFound[],
  floor: { readonly number: number; readonly numberMin: number } | undefined,
): JournalWrite[] {
  const install = installOf(manifest);
  const [step] = manifest.steps;
  const [first] = named;
  const raised = named.find(({ statement }) => statement.number === floor?.number);
  const deploying = manifest.operation === "apply" ? step?.component : undefined;
  return [
    ...(deploying !== undefined && first
      ? [deployingWrite(install, deploying, first.kept.index)]
      : []),
    ...(floor && raised
      ? [{ kind: "release_floor" as const, install, ...floor, index: raised.kept.index }]
      : []),
    ...named.flatMap(({ isNew, kept }) => (isNew ? [{ kind: "statement" as const, ...kept }] : [])),
  ];
}

function deployingWrite(install: string, component: string, index: Digest): JournalWrite {
  return { kind: "deploying", install, component, index };
}
