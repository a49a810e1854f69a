import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import {
  createGraph,
  dependentsOf,
  findCycles,
  type Graph,
  topologicalOrder,
  waves,
} from "./graph.ts";

const graph = (needs: Record<string, readonly string[]>): Graph<string> =>
  createGraph(Object.entries(needs));

describe("a dependency graph", () => {
  test("puts independent nodes into the same wave", () => {
    const crm = graph({ api: ["database", "image"], database: [], image: [], web: ["api"] });

    assert.deepEqual(waves(crm), [["database", "image"], ["api"], ["web"]]);
  });

  test("ignores names nobody declared", () => {
    assert.deepEqual(topologicalOrder(graph({ api: ["ghost"] })), ["api"]);
  });

  test("has no order when it has a cycle, and names the cycle in full", () => {
    const knot = graph({ a: ["b"], b: ["c"], c: ["a"], d: ["a"] });

    assert.equal(topologicalOrder(knot), undefined);
    assert.deepEqual(findCycles(knot), [["a", "b", "c", "a"]]);
  });

  test("sees a node that needs itself, and two separate cycles", () => {
    assert.deepEqual(findCycles(graph({ a: ["a"], b: ["c"], c: ["b"] })), [
      ["a", "a"],
      ["b", "c", "b"],
    ]);
  });

  test("knows what lies downstream, through others too", () => {
    const crm = graph({ database: [], api: ["database"], web: ["api"], docs: [] });

    assert.deepEqual([...dependentsOf(crm, ["database"])], ["api", "web"]);
  });

  test("either has an order that respects every need, or a cycle made of real needs", () => {
    fc.assert(
      fc.property(anyGraph(), (any) => {
        const order = topologicalOrder(any);
        const cycles = findCycles(any);

        assert.equal(order === undefined, cycles.length > 0);
        for (const [name, needs] of order ? any.needs : []) {
          for (const need of needs) assert.ok(position(order, need) < position(order, name));
        }
        for (const cycle of cycles) {
          assert.equal(cycle[0], cycle.at(-1));
          for (const [index, name] of cycle.slice(0, -1).entries()) {
            assert.ok(any.needs.get(name)?.has(cycle[index + 1] ?? ""));
          }
        }
      }),
    );
  });
});

function position(order: readonly string[] | undefined, name: string): number {
  return order?.indexOf(name) ?? -1;
}

function anyGraph(): fc.Arbitrary<Graph<string>> {
  const name = fc.constantFrom("a", "b", "c", "d", "e", "f");
  return fc
    .dictionary(name, fc.uniqueArray(name, { maxLength: 3 }), { maxKeys: 6 })
    .map((needs) => graph(needs));
}
