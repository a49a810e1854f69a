// What a release is, in the words of whoever may say what exists: one signed statement per release,
// attached to its index. Per component it fixes the plugin, the artifact, the configuration and what
// each operation does when it is run twice, so that whoever directs an install can only choose among
// released things. It travels as an in-toto statement about the index, in a DSSE envelope.

import { z } from "zod";
import { canonicalBytes } from "../encoding/canonical.ts";
import { digestOf } from "../encoding/sha256.ts";
import { AppId, ComponentName, ComponentType, Digest, Instant } from "../ids.ts";
import { ArtifactRef, Effect, PluginOperation } from "../manifest/manifest.ts";

/** What each operation of a plugin does when it is run again. */
export const Effects = z.partialRecord(PluginOperation, Effect);
export type Effects = z.infer<typeof Effects>;

export const StatementComponent = z.object({
  name: ComponentName,
  type: ComponentType,
  plugin: ArtifactRef,
  artifact: ArtifactRef.optional(),
  /** Of the configuration as the vendor wrote it, expressions unevaluated. */
  configDigest: Digest,
  effects: Effects,
});
export type StatementComponent = z.infer<typeof StatementComponent>;

export const StatementSandbox = z.object({
  type: ComponentType,
  image: ArtifactRef,
  effects: Effects,
});
export type StatementSandbox = z.infer<typeof StatementSandbox>;

export const ReleaseStatement = z.object({
  version: z.literal(1),
  app: AppId,
  appName: z.string().min(1),
  release: z.string().min(1),
  /** Rises with every release of the app. */
  number: z.int().positive(),
  /** What people call it. */
  versionName: z.string(),
  /** The release's index: what the statement is about. */
  index: ArtifactRef.extend({ sizeBytes: z.int().positive() }),
  components: z.array(StatementComponent).min(1),
  runner: ArtifactRef,
  sandboxes: z.array(StatementSandbox),
  agent: ArtifactRef.optional(),
  /** An install that has seen this release may go back as far as this number, and no further. */
  rollbackTo: z.object({ numberMin: z.int().positive() }),
  createdAt: Instant,
});
export type ReleaseStatement = z.infer<typeof ReleaseStatement>;

/** A release as its maker knows it: configurations themselves, not their digests. */
export type StatedRelease = Omit<ReleaseStatement, "version" | "components"> & {
  readonly components: readonly (Omit<StatementComponent, "configDigest"> & {
    readonly config: Readonly<Record<string, unknown>>;
  })[];
};

export function statementFor({ components, ...release }: StatedRelease): ReleaseStatement {
  return ReleaseStatement.parse({
    version: 1,
    ...release,
    components: components.map(({ config, ...component }) => ({
      ...component,
      configDigest: digestOf(config),
    })),
  });
}

/** Everything a release consists of, by the vendor's names: nothing else may come into an install. */
export function listedBy(statement: ReleaseStatement): ArtifactRef[] {
  const { index, runner, agent, components, sandboxes } = statement;
  return [
    { repository: index.repository, digest: index.digest },
    runner,
    ...(agent ? [agent] : []),
    ...components.flatMap(({ plugin, artifact }) => (artifact ? [plugin, artifact] : [plugin])),
    ...sandboxes.map(({ image }) => image),
  ];
}

export const IN_TOTO_PAYLOAD_TYPE = "application/vnd.in-toto+json";
export const IN_TOTO_STATEMENT_TYPE = "https://in-toto.io/Statement/v1";
export const RELEASE_PREDICATE_TYPE = "https://exclave.dev/release/v1";

/** The bytes that the release role signs. */
export function statementBytes(statement: ReleaseStatement): Uint8Array {
  return canonicalBytes({
    _type: IN_TOTO_STATEMENT_TYPE,
    subject: [{ name: statement.index.repository, digest: digestSet(statement.index.digest) }],
    predicateType: RELEASE_PREDICATE_TYPE,
    predicate: statement,
  });
}

/** A digest as in-toto spells it. */
export function digestSet(digest: Digest): Record<string, string> {
  const [algorithm = "", hex = ""] = digest.split(":");
  return { [algorithm]: hex };
}
