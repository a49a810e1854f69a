import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { componentState } from "./component-state.ts";
import { addressesOf, findUnrecorded, noteMade, recordUnrecorded } from "./made-resources.ts";

const a = { address: "x.a", id: "1" };
const b = { address: "x.b", id: "2" };

describe("what a killed apply made", () => {
  test("is what was noted and is not in the state; a line that was cut off is none", async (t) => {
    const directory = await mkdtemp(join(tmpdir(), "exclave-made-"));
    t.after(() => rm(directory, { recursive: true }));
    const state = componentState(directory);
    noteMade(state, a);
    noteMade(state, b);
    await writeFile(state.madeFile, '{"address":"x.c', { flag: "a" });
    const facts = { serial: 1, resources: [resource({ name: "a" })] };

    assert.deepEqual(await findUnrecorded(state, facts), [b]);
    assert.deepEqual(await findUnrecorded(state, undefined), [a, b]);
  });

  test("is taken into the state, each by its id", async () => {
    const taken: unknown[] = [];
    const take = async (one: unknown) => void taken.push(one);
    const said: string[] = [];

    await recordUnrecorded({ take }, [a, b], (message) => said.push(message));

    assert.deepEqual(taken, [a, b]);
    assert.match(said.join(), /x\.a \(1\).*in the state now/);
  });

  for (const problem of [
    "Error: Cannot import non-existent remote object",
    "Error: resource local_file doesn't support import",
  ]) {
    test(`is let go where taking it cannot matter: ${problem}`, async () => {
      const said: string[] = [];

      await recordUnrecorded({ take: async () => problem }, [a], (message) => said.push(message));

      assert.match(said.join(), /not taken over/);
    });
  }

  test("stops everything where it exists and cannot be taken", async () => {
    const take = async () => "Error: the cloud does not answer";

    await assert.rejects(
      recordUnrecorded({ take }, [a], () => undefined),
      /x\.a \(1\) was made by a job that was killed.*does not answer/,
    );
  });
});

test("addresses are those the tool prints, with modules and keys; data is not made", () => {
  const resources = [
    resource({ name: "plain" }),
    resource({ name: "many", instances: [{ index_key: 0 }, { index_key: "eu-west" }] }),
    resource({ name: "inner", module: 'module.m["k"]' }),
    resource({ name: "looked-up", mode: "data" }),
  ];

  assert.deepEqual(addressesOf({ serial: 1, resources }), [
    "x.plain",
    "x.many[0]",
    'x.many["eu-west"]',
    'module.m["k"].x.inner',
  ]);
});

function resource(facts: {
  name: string;
  mode?: string;
  module?: string;
  instances?: { index_key?: string | number }[];
}) {
  return { mode: "managed", type: "x", instances: [{}], ...facts };
}
