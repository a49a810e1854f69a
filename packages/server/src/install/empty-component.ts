import type { ComponentRow } from "../store/rows.ts";

/** A component of which nothing is there yet. */
export function emptyComponent(install: string, name: string, type: string): ComponentRow {
  return {
    install,
    name,
    type,
    deployed: null,
    attempted: null,
    plan: null,
    lastFailure: null,
    health: "unknown",
    healthBecause: "not deployed yet",
    drift: null,
    outputs: {},
    outputsDigest: null,
  };
}
