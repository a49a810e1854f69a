// States what a release is and signs that with the release key, after reading the assembled index and
// finding it to be the release. The statement is made here, where the key is, as the finished
// artifact; it is pushed by the build agent, which is the only one that pushes.

import {
  type AppConfig,
  type ArtifactRef,
  asFailure,
  ComponentName,
  ComponentType,
  type Digest,
  effectsOf,
  type ReleaseStatement,
  statementBytes,
  statementFor,
} from "@exclave/core";
import {
  type ContentStore,
  type StatementArtifact,
  type StoredManifest,
  signStatement,
} from "@exclave/oci";
import type { ServerContext } from "../context.ts";
import type { ReleaseRow } from "../store/rows.ts";
import type { Readers } from "../store/store.ts";
import { releaseSigners } from "../trust/release-signers.ts";
import { checkIndex } from "./check-index.ts";
import { materialsOf } from "./plan-release.ts";

/** An artifact small enough to travel in a manifest's parameters; contents are text as they are. */
export interface AttachedArtifact {
  readonly digest: Digest;
  readonly mediaType: string;
  readonly manifest: string;
  readonly blobs: readonly { readonly mediaType: string; readonly content: string }[];
}

export type SealedRelease =
  | {
      readonly kind: "sealed";
      readonly index: ArtifactRef;
      readonly numberMin: number;
      /** Key ids. */
      readonly signedBy: readonly string[];
      readonly attach: AttachedArtifact;
    }
  /** It must not be signed: the release has failed. */
  | { readonly kind: "refused"; readonly index: ArtifactRef; readonly because: string };

/** As much as fits into the manifest that carries it to the build agent, with room for the rest. */
export const STATEMENT_BYTES_MAX = 120 * 1024;

type Context = Pick<ServerContext, "store" | "trust" | "vendorContent">;

export async function sealRelease(
  context: Context,
  release: ReleaseRow,
  app: AppConfig,
  index: ArtifactRef,
): Promise<SealedRelease> {
  const refused = (because: string): SealedRelease => ({ kind: "refused", index, because });
  const written = await readIndex(context.vendorContent, index);
  if ("because" in written) return refused(written.because);
  const expected = { annotations: indexAnnotations(release), materials: materialsOf(release) };
  const strange = checkIndex(written, expected);
  if (strange !== undefined) {
    return refused(`the index that the build agent wrote is not this release: ${strange}`);
  }
  // Stated once, it stays what it was.
  const numberMin =
    release.rollbackNumberMin ?? (await rollbackNumberMin(context.store.read, release, app));
  const sizeBytes = written.bytes.length;
  const statement = statementOf(release, app, { ...index, sizeBytes }, numberMin);
  const size = statementBytes(statement).length;
  if (size > STATEMENT_BYTES_MAX) {
    return refused(
      `its statement is ${size} bytes long and may be ${STATEMENT_BYTES_MAX}: it has too many components`,
    );
  }
  const signers = await releaseSigners(context.trust);
  const signed = await signStatement(statement, signers);
  const signedBy = signers.map(({ keyid }) => keyid);
  return { kind: "sealed", index, numberMin, signedBy, attach: attached(signed) };
}

/** A registry that cannot be read now is no verdict, and throws. */
async function readIndex(
  content: Pick<ContentStore, "readManifest">,
  { repository, digest }: ArtifactRef,
): Promise<StoredManifest | { readonly because: string }> {
  try {
    return await content.readManifest(repository, digest);
  } catch (reason) {
    if (asFailure(reason).code !== "not_found") throw reason;
    return {
      because: `there is no index ${digest} in ${repository}, though the build agent says so`,
    };
  }
}

/** What an index says of itself. */
export function indexAnnotations(release: ReleaseRow): Record<string, string> {
  return {
    "org.opencontainers.image.title": release.appName,
    "org.opencontainers.image.version": release.version,
    "dev.exclave.release": release.id,
    "dev.exclave.app": release.app,
  };
}

/** What a release is, from its row and its configuration. */
export function statementOf(
  release: ReleaseRow,
  app: AppConfig,
  index: ReleaseStatement["index"],
  numberMin: number,
): ReleaseStatement {
  const { id, number, version, runner, createdAt } = release;
  return statementFor({
    app: release.app,
    appName: app.app,
    release: id,
    number,
    versionName: version,
    index,
    components: app.components.flatMap(({ name, type, config }) => {
      const plugin = release.plugins.find((candidate) => candidate.type === type);
      const built = release.components.find((component) => component.name === name);
      if (!plugin?.plugin) return [];
      return [
        {
          name: ComponentName.parse(name),
          type: ComponentType.parse(type),
          plugin: plugin.plugin,
          ...(built?.artifact ? { artifact: built.artifact } : {}),
          config,
          effects: effectsOf(plugin.descriptor),
        },
      ];
    }),
    runner,
    sandboxes: release.sandboxes.map(({ type, image, effects }) => ({
      type: ComponentType.parse(type),
      image,
      effects,
    })),
    rollbackTo: { numberMin },
    createdAt,
  });
}

const PAGE = 100;
/** A history of nothing but failures must end too. */
const PAGES_MAX = 10;

/** How far back: as many releases that could be deployed as the app says, or as there are. */
async function rollbackNumberMin(
  { releases }: Readers,
  { app: id, number }: ReleaseRow,
  app: AppConfig,
): Promise<number> {
  let left = app.rollback.releases;
  let lowest = number;
  let cursor: string | undefined;
  for (let pages = 0; pages < PAGES_MAX && left > 0; pages++) {
    const page = await releases.ofApp(id, { limit: PAGE, ...(cursor ? { cursor } : {}) });
    for (const row of page.items) {
      if (row.state !== "ready" || row.number >= number || left <= 0) continue;
      lowest = row.number;
      left -= 1;
    }
    if (page.next === null) break;
    cursor = page.next;
  }
  return lowest;
}

function attached({ digest, mediaType, manifest, blobs }: StatementArtifact): AttachedArtifact {
  return {
    digest,
    mediaType,
    manifest: toText(manifest),
    blobs: blobs.map((blob) => ({ mediaType: blob.mediaType, content: toText(blob.bytes) })),
  };
}

function toText(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("utf8");
}
