// Who needs whom, as a value: order, cycles, and what lies downstream. Names nobody declared are
// ignored here; whoever builds the graph reports them where they were written.

export interface Graph<Name extends string> {
  readonly nodes: readonly Name[];
  /** What each node needs before itself. */
  readonly needs: ReadonlyMap<Name, ReadonlySet<Name>>;
}

export function createGraph<Name extends string>(
  edges: Iterable<readonly [Name, Iterable<Name>]>,
): Graph<Name> {
  const listed = [...edges];
  const nodes = listed.map(([name]) => name);
  const known = new Set(nodes);
  const needs = new Map<Name, Set<Name>>();
  for (const [name, wanted] of listed) {
    needs.set(name, new Set([...wanted].filter((other) => known.has(other))));
  }
  return { nodes, needs };
}

/**
 * The nodes in waves: each wave needs only the waves before it, so its members may go side by side.
 * Members of a cycle, and what needs them, are in no wave.
 */
export function waves<Name extends string>({ nodes, needs }: Graph<Name>): Name[][] {
  const placed = new Set<Name>();
  const result: Name[][] = [];
  for (;;) {
    const wave = nodes.filter(
      (name) => !placed.has(name) && [...neededBy(needs, name)].every((need) => placed.has(need)),
    );
    if (wave.length === 0) return result;
    for (const name of wave) placed.add(name);
    result.push(wave);
  }
}

/** Every node after what it needs; undefined where a cycle makes that impossible. */
export function topologicalOrder<Name extends string>(graph: Graph<Name>): Name[] | undefined {
  const order = waves(graph).flat();
  return order.length === graph.nodes.length ? order : undefined;
}

/** Each cycle once, written in full and closed: `a → b → a` is `["a", "b", "a"]`. */
export function findCycles<Name extends string>({ nodes, needs }: Graph<Name>): Name[][] {
  const done = new Set<Name>();
  const cycles: Name[][] = [];

  for (const name of nodes) visit(name, []);
  return cycles;

  function visit(name: Name, path: readonly Name[]): void {
    const start = path.indexOf(name);
    if (start >= 0) {
      cycles.push([...path.slice(start), name]);
      return;
    }
    if (done.has(name)) return;
    for (const need of neededBy(needs, name)) visit(need, [...path, name]);
    done.add(name);
  }
}

/** Everything that needs one of these, directly or through others; the start itself is left out. */
export function dependentsOf<Name extends string>(
  { nodes, needs }: Graph<Name>,
  start: Iterable<Name>,
): Set<Name> {
  const reached = new Set(start);
  const found = new Set<Name>();
  for (let grew = true; grew; ) {
    grew = false;
    for (const name of nodes) {
      if (reached.has(name) || ![...neededBy(needs, name)].some((need) => reached.has(need)))
        continue;
      reached.add(name);
      found.add(name);
      grew = true;
    }
  }
  return found;
}

function neededBy<Name extends string>(
  needs: ReadonlyMap<Name, ReadonlySet<Name>>,
  name: Name,
): ReadonlySet<Name> {
  return needs.get(name) ?? new Set();
}
