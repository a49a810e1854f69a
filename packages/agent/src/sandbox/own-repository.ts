// Where content lies in the install's own registry. Manifests and releases name repositories as the
// vendor does; a registry that several installs share has each of them once per install.

import type { ArtifactRef } from "@exclave/core";

/** What is the install's alone on a registry, and what of others it may read there. */
export interface RegistryShare {
  /** Before every repository of this install; empty where the registry is the install's alone. */
  readonly repository: string;
  /** Prefixes of other installs on the same registry, whose blobs this one may mount. */
  readonly mountFrom: readonly string[];
}

export function ownRepository({ repository }: RegistryShare, name: string): string {
  return under(repository, name);
}

export function ownPlace<Ref extends ArtifactRef>(share: RegistryShare, ref: Ref): Ref {
  return { ...ref, repository: ownRepository(share, ref.repository) };
}

/** How many of the others are asked: each costs a look per blob, and a place in the token. */
const OTHERS_MAX = 4;

/**
 * Repositories that may have the blobs a sync is about to bring: those of other installs first, since
 * a registry that is asked for each by name is not asked for many; then `homes`, this install's own.
 */
export function mountCandidates(
  share: RegistryShare,
  materials: readonly ArtifactRef[],
  homes: readonly string[],
): string[] {
  const others = share.mountFrom
    .slice(0, OTHERS_MAX)
    .flatMap((prefix) => materials.map(({ repository }) => under(prefix, repository)));
  return [...new Set([...others, ...homes.map((name) => ownRepository(share, name))])];
}

function under(prefix: string, name: string): string {
  return prefix === "" ? name : `${prefix}/${name}`;
}
