// A release of an app with two components, its statement, and manifests that match it.

import { digestOf } from "../encoding/sha256.ts";
import { AppId, ComponentName, ComponentType, type Digest, Instant } from "../ids.ts";
import { type ArtifactRef, Manifest, type Operation } from "../manifest/manifest.ts";
import type { ReleasedFacts } from "./check-released.ts";
import { type ReleaseStatement, type StatedRelease, statementFor } from "./release-statement.ts";

export const APP = AppId.parse("paaaaaaaaaaaaaaaa");
export const OTHER_APP = AppId.parse("pbbbbbbbbbbbbbbbb");
const ref = (repository: string, digest: Digest = digestOf(repository)): ArtifactRef => ({
  repository,
  digest,
});

export const RUNNER = ref("exclave/runner");
export const API_CONFIG = { port: 80, host: "${{ inputs.domain }}" };
export const EFFECTS = {
  plan: "idempotent",
  apply: "fenced",
  destroy: "fenced",
  status: "idempotent",
  logs: "idempotent",
  exec: "at-most-once",
} as const;

export function statedRelease(number = 3, changes: Partial<StatedRelease> = {}): StatedRelease {
  return {
    app: APP,
    appName: "crm",
    release: `r${"a".repeat(15)}${"abcdefghij"[number]}`,
    number,
    versionName: `${number}.0`,
    index: {
      repository: `releases/${APP}`,
      digest: digestOf({ index: number, app: changes.app ?? APP }),
      sizeBytes: 800,
    },
    components: [
      {
        name: ComponentName.parse("api"),
        type: ComponentType.parse("service"),
        plugin: ref("exclave/plugins/service"),
        artifact: ref(`apps/${APP}/api`),
        config: API_CONFIG,
        effects: EFFECTS,
      },
      {
        name: ComponentName.parse("hook"),
        type: ComponentType.parse("command"),
        plugin: ref("exclave/plugins/command"),
        config: { run: ["true"] },
        effects: { apply: "idempotent" },
      },
    ],
    runner: RUNNER,
    sandboxes: [
      {
        type: ComponentType.parse("local"),
        image: ref("exclave/sandboxes/local"),
        effects: { apply: "idempotent", destroy: "idempotent" },
      },
    ],
    rollbackTo: { numberMin: Math.max(1, number - 1) },
    createdAt: Instant.parse(1_800_000_000_000),
    ...changes,
  };
}

export function statement(number = 3, changes: Partial<StatedRelease> = {}): ReleaseStatement {
  return statementFor(statedRelease(number, changes));
}

export function factsOf(
  statements: readonly ReleaseStatement[],
  changes: Partial<ReleasedFacts> = {},
): ReleasedFacts {
  return {
    kind: "install",
    app: APP,
    statements: new Map(statements.map((one) => [one.index.digest, one])),
    deployed: new Map(),
    runners: [],
    ...changes,
  };
}

export function manifestOf(
  operation: Operation,
  of: ReleaseStatement,
  {
    step = {},
    ...changes
  }: Record<string, unknown> & { readonly step?: Record<string, unknown> } = {},
): Manifest {
  const inputs = {};
  return Manifest.parse({
    version: 1,
    id: "jaaaaaaaaaaaaaaab",
    attempt: 1,
    audience: "iaaaaaaaaaaaaaaaa",
    issueNo: 1,
    operation,
    app: of.app,
    release: of.release,
    steps: [{ ...stepOf(operation, of), ...step }],
    inputs,
    inputsDigest: digestOf(inputs),
    notBefore: 0,
    notAfter: 1,
    deadlineMs: 1,
    requestedBy: "somebody",
    because: "it is tested",
    ...changes,
  });
}

function stepOf(operation: Operation, of: ReleaseStatement): Record<string, unknown> {
  const releases = [{ repository: of.index.repository, digest: of.index.digest }];
  const [api] = of.components;
  if (operation === "sync") {
    const materials = [
      { name: "api", ...api?.artifact },
      { name: "release", repository: of.index.repository, digest: of.index.digest },
    ];
    const parameters = { mountFrom: ["exclave/runner"] };
    const step = { plugin: of.runner, config: {}, parameters, effect: "idempotent" };
    return { operation, ...step, materials, releases };
  }
  return {
    operation,
    plugin: api?.plugin,
    component: api?.name,
    type: api?.type,
    artifact: api?.artifact,
    config: API_CONFIG,
    parameters: operation === "exec" ? { command: ["env"] } : {},
    effect: (api?.effects as Record<string, string> | undefined)?.[operation] ?? "idempotent",
    releases,
  };
}
