// What a memory journal keeps about releases, by the same rules as the tables.

import type { Digest, ReleaseFloor } from "@exclave/core";
import {
  type KeptStatement,
  type ReleaseMemory,
  type ReleaseWrite,
  STATEMENTS_MAX,
} from "./release-memory.ts";

export interface MemoryReleases extends ReleaseMemory {
  write(entry: ReleaseWrite): void;
}

interface Trace {
  readonly applied?: Digest | undefined;
  readonly attempted?: Digest | undefined;
}

export function createMemoryReleases(): MemoryReleases {
  const statements = new Map<Digest, KeptStatement>();
  const floors = new Map<string, ReleaseFloor & { readonly index: Digest }>();
  const deployed = new Map<string, Map<string, Trace>>();

  return {
    write,
    statement: (index) => statements.get(index),
    statements: () => [...statements.values()].toReversed(),
    releases(install) {
      const floor = floors.get(install);
      const traces = [...(deployed.get(install) ?? [])];
      return {
        ...(floor && { floor: { number: floor.number, numberMin: floor.numberMin } }),
        deployed: new Map(traces.map(([component, trace]) => [component, digestsOf(trace)])),
      };
    },
  };

  function write(entry: ReleaseWrite): void {
    switch (entry.kind) {
      case "statement": {
        const { index, artifact, envelope } = entry;
        statements.delete(index);
        statements.set(index, { index, artifact, envelope });
        return prune();
      }
      case "release_floor": {
        const { number, numberMin, index } = entry;
        floors.set(entry.install, { number, numberMin, index });
        return;
      }
      case "deploying": {
        const trace = tracesOf(entry.install).get(entry.component);
        tracesOf(entry.install).set(entry.component, { ...trace, attempted: entry.index });
        return;
      }
      case "deployed":
        tracesOf(entry.install).set(entry.component, { applied: entry.index });
        return;
      case "undeployed":
        tracesOf(entry.install).delete(entry.component);
        return;
      case "release_forgotten":
        deployed.delete(entry.install);
        floors.delete(entry.install);
    }
  }

  function tracesOf(install: string): Map<string, Trace> {
    const traces = deployed.get(install) ?? new Map<string, Trace>();
    deployed.set(install, traces);
    return traces;
  }

  function prune(): void {
    const newest = new Set([...statements.keys()].toReversed().slice(0, STATEMENTS_MAX));
    const used = new Set([
      ...[...floors.values()].map(({ index }) => index),
      ...[...deployed.values()].flatMap((traces) => [...traces.values()].flatMap(digestsOf)),
    ]);
    for (const index of statements.keys()) {
      if (!newest.has(index) && !used.has(index)) statements.delete(index);
    }
  }
}

function digestsOf({ applied, attempted }: Trace): Digest[] {
  return [applied, attempted].filter((digest) => digest !== undefined);
}
