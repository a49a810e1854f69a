// Where the statement of a release comes from: the journal, where it was verified before it was written; the install's own
// registry, beside the index; and for a job that may read there, the vendor's registry. Wherever it
// was found, it counts only by its signatures, and nothing it lists is pulled before.

import type { Grant } from "@exclave/api";
import {
  type ArtifactRef,
  Failure,
  openStatement,
  type ReleaseStatement,
  type TrustedRole,
} from "@exclave/core";
import {
  type ContentStore,
  type FoundStatement,
  readStatement,
  verifySignature as verify,
} from "@exclave/oci";
import type { KeptStatement, ReleaseMemory } from "../journal/release-memory.ts";
import { ownPlace, type RegistryShare } from "../sandbox/own-repository.ts";

export interface StatementSources {
  readonly memory: Pick<ReleaseMemory, "statement" | "statements">;
  /** Whose statements count, now. */
  readonly role: () => TrustedRole;
  /** Only an install has a registry of its own. */
  readonly own?: OwnStatements | undefined;
  readonly withVendor: <Value>(
    grant: Grant,
    read: (store: ContentStore) => Promise<Value>,
  ) => Promise<Value>;
}

export interface OwnStatements {
  readonly share: RegistryShare;
  /** Opens the install's registry for these repositories, for as long as `read` takes. */
  readonly withRegistry: <Value>(
    repositories: readonly string[],
    read: (store: ContentStore) => Promise<Value>,
  ) => Promise<Value>;
}

export interface ReleaseFound {
  readonly statement: ReleaseStatement;
  readonly kept: KeptStatement;
  /** Not in the journal yet. */
  readonly isNew: boolean;
}

export interface FindStatement {
  (index: ArtifactRef, grant: Grant | undefined): Promise<ReleaseFound>;
  /** Those in the journal that count now, newest first. */
  kept(): readonly ReleaseStatement[];
}

const REMEMBERED_MAX = 50;

export function createFindStatement({
  memory,
  role,
  own,
  withVendor,
}: StatementSources): FindStatement {
  // A kept statement never changes, but who may sign one does: it counts as long as its keys do.
  // Verifying and reading it anew each time costs more than it should for a status.
  const opened = new Map<string, ReleaseStatement | undefined>();

  return Object.assign(find, {
    kept: () => memory.statements().flatMap((kept) => openKept(kept) ?? []),
  });

  async function find(index: ArtifactRef, grant: Grant | undefined): Promise<ReleaseFound> {
    const kept = memory.statement(index.digest);
    const statement = kept && openKept(kept);
    if (kept && statement) return { statement, kept, isNew: false };
    const inOwn = own && (await readOwn(own, index));
    if (inOwn && !("because" in inOwn)) return found(index, inOwn);
    const inVendor = grant && (await withVendor(grant, (store) => read(store, index, index)));
    if (inVendor && !("because" in inVendor)) return found(index, inVendor);
    const because = (inVendor ?? inOwn)?.because;
    const what = `${index.repository}@${index.digest}`;
    if (because === undefined) {
      throw new Failure("not_synced", `release ${what} is not in the install's registry`);
    }
    if (kept && !inVendor) {
      const message = `the key that signed release ${what} was revoked; a sync brings its new statement`;
      throw new Failure("not_synced", message);
    }
    throw new Failure("signature", `release ${what} has no statement that counts here: ${because}`);
  }

  /** Undefined where the release itself is not there. */
  async function readOwn({ share, withRegistry }: OwnStatements, index: ArtifactRef) {
    const place = ownPlace(share, index);
    return withRegistry([place.repository], async (store) => {
      const isThere = await store.headManifest(place.repository, place.digest);
      return isThere ? read(store, place, index) : undefined;
    });
  }

  function read(store: ContentStore, { repository }: ArtifactRef, { digest }: ArtifactRef) {
    return readStatement({ store, repository, index: digest, role: role() });
  }

  function openKept({ index, artifact, envelope }: KeptStatement): ReleaseStatement | undefined {
    const { keys, threshold } = role();
    const name = [artifact, threshold, ...keys.map(({ spki }) => spki)].join();
    if (opened.has(name)) return opened.get(name);
    const result = openStatement({ envelope, index, role: { keys, threshold }, verify });
    const statement = result.kind === "ok" ? result.statement : undefined;
    if (opened.size >= REMEMBERED_MAX) opened.clear();
    opened.set(name, statement);
    return statement;
  }
}

function found({ digest }: ArtifactRef, { statement, envelope, artifact }: FoundStatement) {
  return { statement, kept: { index: digest, artifact, envelope }, isNew: true };
}
