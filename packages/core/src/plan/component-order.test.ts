import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Deployed } from "../consequence/deployed.ts";
import { digestOf } from "../encoding/sha256.ts";
import { ComponentType } from "../ids.ts";
import { PluginDescriptor } from "../plugin-descriptor.ts";
import { deployedBy, floorAfter, manifestStepOf, STATUS_EVERY_MS } from "./component-order.ts";
import { named, ref } from "./install.testing.ts";
import type { ComponentStep } from "./plan-install.ts";

const STEP: ComponentStep = {
  kind: "apply",
  component: named("api"),
  type: ComponentType.parse("command"),
  plugin: ref("plugins/command", "plugin"),
  artifact: ref("apps/crm/api", "artifact"),
  config: { port: 1 },
  dependsOn: [named("database")],
  deployKey: digestOf("key"),
  because: "first deploy",
};
const descriptor = PluginDescriptor.parse({
  version: 1,
  type: "command",
  operations: { apply: { effect: "at-most-once" }, status: { effect: "idempotent" } },
  configSchema: {},
  outputs: {},
});
const RELEASE = { id: "r2", plugins: [{ type: "command", descriptor }] };
const APP = {
  inputs: [{ name: "size", type: "number", required: false, default: 2 }],
  secrets: [
    { name: "session", required: true, generate: { bytes: 16 } },
    { name: "given", required: false },
  ],
  components: [],
} as never;
const THERE: Deployed = {
  ...deployedBy(STEP, { there: null, release: { ...RELEASE, id: "r1" }, inputs: {} }),
  config: { port: 0 },
};

describe("a component's job", () => {
  test("leaves what the step and its release say, with the values of this install's inputs", () => {
    const facts = { there: THERE, release: RELEASE, app: APP, inputs: { size: "3" } };

    const left = deployedBy(STEP, facts);

    assert.deepEqual(left.inputs, { size: 3 });
    assert.deepEqual(left.generatedSecrets, [{ name: "session", bytes: 16 }]);
    assert.deepEqual(left.effects, { apply: "at-most-once", status: "idempotent" });
    assert.deepEqual(
      [left.release, left.config, left.dependsOn],
      ["r2", { port: 1 }, ["database"]],
    );
  });

  test("takes down what is there, as it was deployed", () => {
    const facts = { there: THERE, release: RELEASE, app: APP, inputs: {} };

    assert.equal(deployedBy({ ...STEP, kind: "destroy" }, facts), THERE);
    assert.equal(deployedBy({ ...STEP, kind: "plan" }, facts).release, "r2");
  });

  test("leaves what is there where just that is applied again", () => {
    const facts = { there: THERE, release: RELEASE, app: APP, inputs: {} };

    assert.equal(deployedBy({ ...STEP, isAsIs: true }, facts), THERE);
    assert.equal(deployedBy(STEP, facts).release, "r2");
  });

  test("says how often its health is looked up, where its plugin has a status", () => {
    const components = [{ name: "api", statusEverySeconds: 5 }];
    const every = (app: object, release: typeof RELEASE | undefined) =>
      deployedBy(STEP, { there: null, release, app: app as never, inputs: {} }).statusEveryMs;
    const app = { inputs: [], secrets: [], components };

    assert.equal(every(app, RELEASE), 5_000);
    assert.equal(every({ ...app, components: [] }, RELEASE), STATUS_EVERY_MS);
    assert.equal(every(app, undefined), undefined);
  });

  test("runs with the effect its plugin declares, and with the plan somebody agreed to", () => {
    const plan = digestOf("plan");
    const index = ref("releases/crm", "index");

    const step = manifestStepOf({ ...STEP, plan }, THERE, index);

    assert.deepEqual(
      [step.operation, step.effect, step.parameters, step.releases],
      ["apply", "at-most-once", { plan }, [index]],
    );
    assert.equal(
      manifestStepOf({ ...STEP, kind: "destroy" }, THERE, undefined).effect,
      "idempotent",
    );
  });
});

describe("the release floor", () => {
  const floor = { release: "r5", number: 5, numberMin: 4 };
  const newer = { id: "r6", number: 6, rollbackNumberMin: 2 };
  const older = { id: "r4", number: 4, rollbackNumberMin: 1 };

  test("rises with what is directed, and never sinks", () => {
    const directed = { release: "r6", number: 6, numberMin: 2 };

    assert.deepEqual(floorAfter(floor, newer, [{ kind: "sync" }]), directed);
    assert.deepEqual(floorAfter(null, newer, [{ kind: "apply" }]), directed);
    assert.equal(floorAfter(floor, older, [{ kind: "apply" }]), floor);
  });

  test("stays where something is only taken down, or applied again as it is", () => {
    assert.equal(floorAfter(floor, newer, [{ kind: "destroy" }]), floor);
    assert.equal(floorAfter(floor, newer, [{ kind: "apply", isAsIs: true }]), floor);
    assert.equal(floorAfter(floor, newer, []), floor);
  });
});
