import type { Vault, VaultKind } from "./vault.ts";

/** A vault that keeps exactly what was put in, and can be handed to a later life of its agent. */
export function createMemoryVault(): Vault {
  const kept = new Map<
    string,
    { readonly kind: VaultKind; readonly name: string; value: unknown }
  >();
  const keyOf = (kind: VaultKind, name: string) => `${kind} ${name}`;
  return {
    read: (kind, name) => kept.get(keyOf(kind, name))?.value,
    entries: (kind) =>
      [...kept.values()]
        .filter((entry) => entry.kind === kind)
        .map(({ name, value }) => ({ name, value }))
        .sort((a, b) => (a.name < b.name ? -1 : 1)),
    keep: (kind, name, value) => {
      kept.set(keyOf(kind, name), { kind, name, value });
    },
    drop: (kind, name) => {
      kept.delete(keyOf(kind, name));
    },
  };
}
