import assert from "node:assert/strict";
import { test } from "node:test";
import { declaredLimits, enforcedLimits, LimitsDeclaration, limitsFor } from "./job-limits.ts";
import { Operation } from "./manifest.ts";

const MIB = 1024 ** 2;

for (const operation of Operation.options) {
  test(`a manifest for ${operation} has a figure for every limit`, () => {
    const limits = Object.values(limitsFor(operation));

    assert.equal(limits.length, 5);
    assert.ok(limits.every((limit) => Number.isFinite(limit) && limit > 0));
  });
}

test("a component's own wish counts, the default stands for the rest", () => {
  const declared = LimitsDeclaration.parse({ memory: "512MiB", processes: 32, log: "1GiB" });

  const limits = limitsFor("apply", declaredLimits(declared));

  assert.deepEqual(limits, {
    ...limitsFor("apply"),
    memoryBytes: 512 * MIB,
    processesMax: 32,
    logBytesMax: 1024 * MIB,
  });
});

test("the sandbox has the last word: the smaller figure is enforced", () => {
  const wanted = { memoryBytes: 900, processesMax: 10, cpus: 4 };

  const limits = enforcedLimits("apply", wanted, { memoryBytes: 500, processesMax: 20, cpus: 1 });

  assert.deepEqual([limits.memoryBytes, limits.processesMax, limits.cpus], [500, 10, 1]);
  assert.equal(limits.diskBytesMax, limitsFor("apply").diskBytesMax);
});

test("a manifest that says nothing of limits is held to the default, and that to the sandbox's", () => {
  assert.deepEqual(enforcedLimits("build", {}), limitsFor("build"));
  assert.equal(enforcedLimits("build", {}, { memoryBytes: 7 }).memoryBytes, 7);
});
