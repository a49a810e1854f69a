import assert from "node:assert/strict";
import { test } from "node:test";
import { digestOf } from "../encoding/sha256.ts";
import type { Operation } from "../manifest/manifest.ts";
import { checkReleased, type ReleasedFacts, type ReleasedVerdict } from "./check-released.ts";
import { factsOf, manifestOf, OTHER_APP, RUNNER, statement } from "./released.testing.ts";

const RELEASE = statement(3);
const OPERATIONS = ["sync", "plan", "apply", "destroy", "status", "logs", "exec"] as const;
const COMPONENT_OPERATIONS = OPERATIONS.filter((operation) => operation !== "sync");
const EVIL = { repository: "exclave/plugins/service", digest: digestOf("evil") };
const [api, hook] = RELEASE.components;
assert.ok(api && hook);

function check(
  operation: Operation,
  changes: Parameters<typeof manifestOf>[2] = {},
  facts: Partial<ReleasedFacts> = {},
  of = RELEASE,
): ReleasedVerdict {
  return checkReleased(manifestOf(operation, of, changes), factsOf([of], facts));
}

function assertRefused(verdict: ReleasedVerdict, code: string, because: RegExp): void {
  assert.equal(verdict.kind, "refused", JSON.stringify(verdict));
  if (verdict.kind !== "refused") return;
  assert.equal(verdict.code, code, verdict.because);
  assert.match(verdict.because, because);
}

for (const operation of OPERATIONS) {
  test(`${operation} as the statement has it is ok`, () => {
    assert.equal(check(operation).kind, "ok");
  });

  test(`${operation} of a release without a verified statement is refused`, () => {
    const verdict = checkReleased(manifestOf(operation, RELEASE), factsOf([]));

    assertRefused(verdict, "unreleased", /no verified statement/);
    assertRefused(check(operation, { step: { releases: [] } }), "unreleased", /names no release/);
  });

  test(`${operation} with a plugin that was not released is refused`, () => {
    assertRefused(check(operation, { step: { plugin: EVIL } }), "unreleased", /sha256/);
  });

  test(`${operation} with a component's artifact as its plugin is refused`, () => {
    const verdict = check(operation, { step: { plugin: api.artifact } });

    assertRefused(verdict, "unreleased", /not the released plugin|no runner/);
  });

  test(`${operation} of another app's release is refused`, () => {
    const theirs = statement(3, { app: OTHER_APP, appName: "shop" });

    assertRefused(check(operation, {}, {}, theirs), "wrong_install", /a release of shop/);
    const said = manifestOf(operation, theirs, { app: RELEASE.app });
    assertRefused(checkReleased(said, factsOf([theirs])), "wrong_install", /a release of shop/);
    const hidden = check(operation, { app: "pbbbbbbbbbbbbbbbb" });
    assertRefused(hidden, "wrong_install", /install of/);
  });

  test(`${operation} whose step says another operation is refused`, () => {
    const other = operation === "exec" ? "status" : "exec";

    assertRefused(check(operation, { step: { operation: other } }), "invalid", /its step says/);
  });

  test(`${operation} with another effect is refused`, () => {
    const effect = operation === "exec" ? "idempotent" : "at-most-once";

    assertRefused(
      check(operation, { step: { effect } }),
      "unreleased",
      /idempotent|fenced|at-most/,
    );
  });

  test(`${operation} that says another release than it names is refused`, () => {
    const verdict = check(operation, { release: "raaaaaaaaaaaaaaaz" });

    assertRefused(verdict, "unreleased", /names the statement of another/);
  });

  test(`${operation} that names the index in another repository is refused`, () => {
    const releases = [{ repository: "releases/other", digest: RELEASE.index.digest }];

    assertRefused(check(operation, { step: { releases } }), "unreleased", /no verified statement/);
  });

  test(`${operation} with material that no named release lists is refused`, () => {
    const materials = [{ name: "evil", ...EVIL }];

    assertRefused(check(operation, { step: { materials } }), "unreleased", /lists .*sha256/);
  });
}

for (const operation of COMPONENT_OPERATIONS) {
  test(`${operation} with the plugin of another type is refused`, () => {
    const wrongPlugin = check(operation, { step: { plugin: hook.plugin } });
    const wrongType = check(operation, { step: { type: hook.type } });

    assertRefused(wrongPlugin, "unreleased", /not the released plugin of api/);
    assertRefused(wrongType, "unreleased", /api is a service/);
  });

  test(`${operation} with another artifact, or none, is refused`, () => {
    const other = { ...api.artifact, digest: digestOf("other") };

    assertRefused(check(operation, { step: { artifact: other } }), "unreleased", /as api/);
    assertRefused(check(operation, { step: { artifact: undefined } }), "unreleased", /no artifact/);
    const moved = { ...api.artifact, repository: "apps/elsewhere" };
    assertRefused(check(operation, { step: { artifact: moved } }), "unreleased", /as api/);
  });

  test(`${operation} with a changed configuration is refused`, () => {
    const verdict = check(operation, { step: { config: { port: 81 } } });

    assertRefused(verdict, "unreleased", /configuration of api/);
  });

  test(`${operation} of a component the release does not have is refused`, () => {
    assertRefused(
      check(operation, { step: { component: "web" } }),
      "unreleased",
      /no component web/,
    );
    assertRefused(
      check(operation, { step: { component: undefined } }),
      "unreleased",
      /no component/,
    );
  });

  test(`${operation} of two releases at once is refused`, () => {
    const { repository, digest } = RELEASE.index;
    const releases = [
      { repository, digest },
      { repository, digest },
    ];

    assertRefused(check(operation, { step: { releases } }), "invalid", /of one release/);
  });
}

test("an artifact given to a component that has none is refused", () => {
  const step = {
    component: "hook",
    type: "command",
    plugin: hook.plugin,
    config: { run: ["true"] },
  };
  const changes = { step: { ...step, effect: "idempotent", artifact: api.artifact } };

  assertRefused(check("apply", changes), "unreleased", /not what was released as hook/);
});

test("an operation the plugin does not have is refused", () => {
  const step = {
    component: "hook",
    type: "command",
    plugin: hook.plugin,
    config: { run: ["true"] },
  };

  const verdict = check("exec", { step: { ...step, artifact: undefined } });

  assertRefused(verdict, "unreleased", /a command has no exec/);
});

test("parameters are for logs and exec; elsewhere only what the operation knows", () => {
  for (const operation of ["plan", "apply", "destroy", "status", "sync"] as const) {
    const verdict = check(operation, { step: { parameters: { planFile: "/etc/passwd" } } });
    assertRefused(verdict, "unreleased", /takes no parameter planFile/);
  }
  assert.equal(check("apply", { step: { parameters: { plan: "sha256:x" } } }).kind, "ok");
  assert.equal(check("logs", { step: { parameters: { tailLines: 5 } } }).kind, "ok");
});

test("a sync runs a runner that was pinned or released, about no component, without configuration", () => {
  const old = { repository: "exclave/runner", digest: digestOf("old runner") };
  assertRefused(check("sync", { step: { plugin: old } }), "unreleased", /no runner/);

  assert.equal(check("sync", { step: { plugin: old } }, { runners: [old] }).kind, "ok");

  for (const step of [{ component: "api" }, { type: "service" }, { artifact: api.artifact }]) {
    assertRefused(check("sync", { step }), "unreleased", /no component/);
  }
  assertRefused(check("sync", { step: { config: { a: 1 } } }), "unreleased", /no configuration/);
});

test("a plugin that was released is no runner", () => {
  const verdict = check("sync", { step: { plugin: api.plugin } });

  assertRefused(verdict, "unreleased", /no runner/);
});

test("sync, plan and apply raise the floor, the others do not", () => {
  for (const operation of OPERATIONS) {
    const verdict = check(operation);
    const raises = ["sync", "plan", "apply"].includes(operation);
    const floor = raises ? { number: 3, numberMin: 2 } : undefined;
    assert.deepEqual(verdict.kind === "ok" && verdict.floor, floor, operation);
  }
  const seen = { floor: { number: 3, numberMin: 2 } };
  assert.deepEqual(check("apply", {}, seen), { kind: "ok" }, "the same again raises nothing");
});

test("an older release is refused unless it is a rollback that the newest one seen allows", () => {
  const floor = { number: 5, numberMin: 3 };
  for (const operation of OPERATIONS) {
    assertRefused(check(operation, {}, { floor }), "downgrade", /not directed as a rollback/);
    assert.equal(check(operation, { rollback: true }, { floor }).kind, "ok", operation);
    const strict = { floor: { number: 5, numberMin: 4 } };
    assertRefused(
      check(operation, { rollback: true }, strict),
      "downgrade",
      /no rollback below number 4/,
    );
  }
});

test("a rollback leaves the floor where it was", () => {
  const verdict = check("apply", { rollback: true }, { floor: { number: 4, numberMin: 3 } });

  assert.deepEqual(verdict, { kind: "ok" });
});

test("a component is looked at and removed by the release it is deployed from, however old", () => {
  const floor = { number: 9, numberMin: 9 };
  const deployed = new Map([["api", [RELEASE.index.digest]]]);
  for (const operation of ["destroy", "status", "logs", "exec", "sync"] as const) {
    assert.equal(check(operation, {}, { floor, deployed }).kind, "ok", operation);
  }
  for (const operation of ["plan", "apply"] as const) {
    assertRefused(check(operation, {}, { floor, deployed }), "downgrade", /older/);
  }
  const others = new Map([["hook", [RELEASE.index.digest]]]);
  assertRefused(check("exec", {}, { floor, deployed: others }), "downgrade", /older/);
});

test("builds and assembles are for the build agent, which runs nothing else", () => {
  for (const operation of ["build", "assemble"] as const) {
    assert.equal(check(operation, {}, { kind: "build" }).kind, "ok");
    assertRefused(check(operation), "invalid", /an? install agent does/);
    assertRefused(check(operation, {}, { kind: "setup" }), "invalid", /setup agent does/);
  }
  for (const operation of OPERATIONS) {
    assertRefused(check(operation, {}, { kind: "build" }), "invalid", /build agent does/);
  }
  for (const operation of ["sync", "exec", "logs"] as const) {
    assertRefused(check(operation, {}, { kind: "setup" }), "invalid", /setup agent does/);
  }
});

const [local] = RELEASE.sandboxes;
assert.ok(local);
const SETUP = {
  plugin: local.image,
  component: "sandbox",
  type: "local",
  artifact: RUNNER,
  config: { directory: "/somewhere" },
  parameters: {},
  effect: "idempotent",
};

function checkSetup(operation: Operation, step: Record<string, unknown> = {}) {
  return check(operation, { step: { ...SETUP, ...step } }, { kind: "setup", app: undefined });
}

test("a setup agent runs the sandbox of the named release, and seeds its runner", () => {
  assert.equal(checkSetup("apply").kind, "ok");
  assert.equal(checkSetup("destroy", { artifact: undefined }).kind, "ok");

  assertRefused(checkSetup("apply", { plugin: EVIL }), "unreleased", /plugin of sandbox local/);
  assertRefused(
    checkSetup("apply", { plugin: api.plugin }),
    "unreleased",
    /not the released plugin/,
  );
  assertRefused(checkSetup("apply", { artifact: EVIL }), "unreleased", /not what was released/);
  assertRefused(checkSetup("destroy"), "unreleased", /not what was released/);
  assertRefused(checkSetup("apply", { type: "aws-eks" }), "unreleased", /no sandbox aws-eks/);
  assertRefused(checkSetup("apply", { effect: "fenced" }), "unreleased", /is idempotent/);
});

test("a setup agent takes a release only for the app that the manifest is about", () => {
  const changes = { app: "pbbbbbbbbbbbbbbbb", step: SETUP };

  const verdict = check("apply", changes, { kind: "setup", app: undefined });

  assertRefused(verdict, "wrong_install", /a release of crm/);
});

test("a job of two steps, or none that matches, is refused", () => {
  const manifest = manifestOf("apply", RELEASE);
  const two = { ...manifest, steps: [...manifest.steps, ...manifest.steps] };

  assertRefused(checkReleased(two, factsOf([RELEASE])), "invalid", /one step/);
});
