// Random installs, run until they settle in a world that takes its time, fails, and refuses every
// move that must never be planned.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import {
  beginComponentJob,
  type ComponentRecord,
  emptyComponentRecord,
  endComponentJob,
} from "../consequence/component-end.ts";
import { healthNow, recordHealth } from "../consequence/health.ts";
import { digestOf } from "../encoding/sha256.ts";
import type { FailureCode } from "../failure.ts";
import { type ComponentName, type Digest, Instant } from "../ids.ts";
import { type Health } from "../job/job-line.ts";
import { purposeOf } from "./component-order.ts";
import { REPAIRS_MAX } from "./decide-repair.ts";
import { component, job, named, now, runner, seen, wanted } from "./install.testing.ts";
import {
  type ArtifactKey,
  artifactKey,
  type DeployedComponent,
  type SeenComponent,
  type Wanted,
  type WantedComponent,
} from "./install-state.ts";
import { type ComponentStep, type InstallPlan, planInstall, type Step } from "./plan-install.ts";
import { ATTEMPTS_MAX } from "./retry.ts";
import { seenComponent } from "./seen-component.ts";

const NAMES = ["a", "b", "c", "d", "e", "f"] as const;

describe("for any install", () => {
  test("carrying out plans brings it to what is wanted, and then there is nothing left to do", () => {
    fc.assert(
      fc.property(anyWish(), anyWish(), fc.infiniteStream(fc.nat(5)), (before, after, dice) => {
        const world = createTestWorld(dice);
        world.settle(wanted(before.components));

        const request = wanted(after.components, { allowDestroy: everything() });
        const plan = world.settle(request);

        assert.deepEqual(plan, { steps: [], holds: [] });
        assert.deepEqual(world.deployedNames(), names(after.components));
      }),
    );
  });

  test("nothing is destroyed that nobody wished away", () => {
    fc.assert(
      fc.property(anyWish(), anyWish(), fc.infiniteStream(fc.nat(5)), (before, after, dice) => {
        const world = createTestWorld(dice);
        world.settle(wanted(before.components));

        const { holds } = world.settle(wanted(after.components));

        assert.deepEqual(
          world.deployedNames(),
          [...new Set([...names(before.components), ...names(after.components)])].toSorted(),
        );
        const left = names(before.components).filter(
          (name) => !names(after.components).includes(name),
        );
        assert.ok(left.every((name) => holds.some((hold) => hold.component === name)));
      }),
    );
  });

  test("what fails for a while is only late", () => {
    fc.assert(
      fc.property(anyWish(), anyTrouble(), fc.infiniteStream(fc.nat(5)), (wish, trouble, dice) => {
        const world = createTestWorld(dice, trouble);

        const plan = world.settle(wanted(wish.components));
        assert.deepEqual(plan, { steps: [], holds: [] });
        assert.deepEqual(world.deployedNames(), names(wish.components));

        world.settle(wanted([], { mode: "destroyed" }));
        assert.deepEqual(world.deployedNames(), []);
      }),
    );
  });

  test("a wish to destroy it leaves nothing, in reverse order", () => {
    fc.assert(
      fc.property(anyWish(), fc.nat(30), fc.infiniteStream(fc.nat(5)), (wish, turns, dice) => {
        const world = createTestWorld(dice);
        world.settle(wanted(wish.components), turns);

        const plan = world.settle(wanted(wish.components, { mode: "destroyed" }));

        assert.deepEqual(plan, { steps: [], holds: [] });
        assert.deepEqual(world.deployedNames(), []);
      }),
    );
  });

  test("failures block what depends on them and nobody else", () => {
    fc.assert(
      fc.property(
        anyWish(),
        anyFailures(),
        fc.infiniteStream(fc.nat(5)),
        (wish, failures, dice) => {
          const world = createTestWorld(dice, failures);

          const { holds, steps } = world.settle(wanted(wish.components));

          const blocked = downstream(wish.components, failures);
          assert.deepEqual(steps, []);
          for (const [name, times] of world.applies) {
            assert.ok(times.length <= ATTEMPTS_MAX, `${name} was applied ${times.length} times`);
            const pauses = times.slice(1).map((time, index) => time - (times[index] ?? 0));
            assert.deepEqual(
              pauses,
              pauses.toSorted((x, y) => x - y),
              "pauses that shrink",
            );
          }
          assert.deepEqual(
            world.deployedNames(),
            names(wish.components).filter((name) => !blocked.has(name)),
          );
          assert.deepEqual(
            holds.map((hold) => String(hold.component)).toSorted(),
            names(wish.components).filter((name) => blocked.has(name)),
          );
        },
      ),
    );
  });

  test("what went missing is applied again, and what stays so is given up with a command", () => {
    const anyIll = fc.subarray([...NAMES]).map((list) => new Set<string>(list));
    fc.assert(
      fc.property(anyWish(), anyIll, fc.infiniteStream(fc.nat(5)), (wish, ill, dice) => {
        const world = createTestWorld(dice, new Map(), ill);
        world.settle(wanted(wish.components));
        world.pass(7_200_000);
        world.fallIll("missing");

        const { steps, holds } = world.settle(wanted(wish.components));

        assert.deepEqual(steps, []);
        assert.deepEqual(
          holds.map((hold) => String(hold.component)).toSorted(),
          names(wish.components).filter((name) => ill.has(name)),
        );
        assert.ok(holds.every(({ endsWhen }) => /deploy acme --component/.test(endsWhen)));
        for (const { name } of wish.components) {
          const times = world.applies.get(name)?.length ?? 0;
          assert.equal(times, 1 + (ill.has(name) ? REPAIRS_MAX : 1), `${name}: ${times} applies`);
        }
      }),
    );
  });
});

/** An agent that looks, and whose last word therefore always counts. */
const WATCH = { agent: { status: "online" } } as const;

interface Wish {
  readonly components: WantedComponent[];
}

/** Components that need only what comes before them in the alphabet, so there is no cycle. */
function anyWish(): fc.Arbitrary<Wish> {
  const sketches = NAMES.map((name, index) =>
    fc.record({
      isThere: fc.boolean(),
      name: fc.constant(name),
      version: fc.constantFrom("1", "2"),
      needs: fc.subarray(NAMES.slice(0, index)),
      reads: fc.subarray(NAMES.slice(0, index), { maxLength: Math.min(index, 2) }),
      plannable: fc.boolean(),
    }),
  );
  return fc.tuple(...sketches).map((parts) => {
    const present = parts.filter(({ isThere }) => isThere);
    const known = new Set<string>(present.map(({ name }) => name));
    const only = (list: readonly string[]) => list.filter((name) => known.has(name));
    return {
      components: present.map(({ name, needs, reads, version, plannable }) =>
        component(name, { version, plannable, needs: only(needs), reads: only(reads) }),
      ),
    };
  });
}

const HITS = fc.constantFrom("all" as const, "apply" as const);

/** How often jobs of a component fail before they work. */
interface Trouble {
  readonly code: FailureCode;
  readonly hits: "all" | "apply";
  times: number;
}

/** Things that pass: fewer failures in a row than it takes to give up. */
function anyTrouble(): fc.Arbitrary<Map<string, Trouble>> {
  const code = fc.constantFrom<FailureCode>(
    "unavailable",
    "disk_full",
    "tool",
    "lost",
    "out_of_memory",
  );
  const trouble = fc.record({ code, hits: HITS, times: fc.nat(ATTEMPTS_MAX - 1) });
  return fc
    .array(fc.tuple(fc.constantFrom(...NAMES), trouble), { maxLength: 4 })
    .map((pairs) => new Map(pairs));
}

function anyFailures(): fc.Arbitrary<Map<string, Trouble>> {
  const code = fc.constantFrom<FailureCode>("plugin", "policy", "lost", "tool");
  const forever = fc.record({ code, hits: HITS, times: fc.constant(Number.POSITIVE_INFINITY) });
  return fc
    .array(fc.tuple(fc.constantFrom(...NAMES), forever), { maxLength: 2 })
    .map((pairs) => new Map(pairs));
}

interface Running {
  readonly step: ComponentStep;
}

/** Jobs take a while and end in any order; the clock moves on when nothing else can. */
function createTestWorld(
  dice: Iterator<number>,
  failures = new Map<string, Trouble>(),
  ill: ReadonlySet<string> = new Set(),
) {
  const synced = new Set<ArtifactKey>([artifactKey(runner)]);
  const records = new Map<ComponentName, ComponentRecord<DeployedComponent>>();
  const running: Running[] = [];
  const applies = new Map<ComponentName, number[]>();
  const used = new Set<Digest>();
  let syncing: Extract<Step, { kind: "sync" }> | undefined;
  let clock: number = now;
  let plans = 0;

  return { settle, deployedNames, applies, fallIll, pass };

  function pass(ms: number): void {
    clock += ms;
  }

  function fallIll(health: Health): void {
    for (const name of records.keys()) say(name, health);
  }

  function say(name: ComponentName, health: Health): void {
    const record = records.get(name);
    if (!record) return;
    const at = Instant.parse(clock);
    const news = { health, because: "", drift: null, source: "agent", at } as const;
    records.set(name, recordHealth(record, news));
  }

  function look() {
    const rest = syncing ? { activeSync: { job, state: "running" as const } } : {};
    const components = new Map([...records.keys()].map((name) => [name, there(name)]));
    return { ...seen({ synced: new Set(synced), ...rest }), components };
  }

  function there(name: ComponentName): SeenComponent {
    const record = records.get(name);
    const active = running.find(({ step }) => step.component === name);
    return {
      ...(record
        ? seenComponent(record, (trace) => trace, healthNow(record, WATCH, Instant.parse(clock)))
        : {}),
      ...(active
        ? { activeJob: { job, operation: active.step.kind, state: "running" as const } }
        : {}),
    };
  }

  function deployedNames(): string[] {
    return [...records].flatMap(([name, { deployed }]) => (deployed ? [name] : [])).toSorted();
  }

  function settle(request: Wanted, turnsMax = 400): InstallPlan {
    for (let turn = 0; ; turn++) {
      const plan = planInstall({ wanted: request, seen: look(), now: Instant.parse(clock) });
      if (turn >= turnsMax) {
        assert.ok(turnsMax < 400, "the install never settles");
        return plan;
      }
      checkPlan(plan, request);
      for (const step of plan.steps) begin(step, request);
      if (syncing || running.length > 0) endOne();
      else if (plan.steps.length === 0) {
        const untils = [
          ...plan.holds.flatMap((hold) => hold.until ?? []),
          plan.wakeAt ?? [],
        ].flat();
        const until = untils.toSorted((x, y) => x - y)[0];
        if (until === undefined) return plan;
        clock = until;
      }
    }
  }

  function checkPlan({ steps, holds }: InstallPlan, request: Wanted): void {
    const touched = steps.map((step) => (step.kind === "sync" ? "sync" : step.component));
    assert.equal(new Set(touched).size, touched.length, "two steps for one component");
    for (const hold of holds)
      assert.ok(hold.because && hold.endsWhen, "a hold without reason or end");
    for (const want of request.mode === "present" ? request.components : []) {
      const isDecided =
        touched.includes(want.name) || holds.some((hold) => hold.component === want.name);
      const isThere = there(want.name).deployed !== undefined;
      assert.ok(isDecided || isThere, `${want.name} is forgotten`);
    }
  }

  function begin(step: Step, request: Wanted): void {
    if (step.kind === "sync") {
      assert.equal(syncing, undefined, "a second sync");
      assert.ok(synced.has(artifactKey(step.runner)), "a sync by a runner that is not there");
      assert.ok(step.materials.length > 0, "a sync of nothing");
      syncing = step;
      return;
    }
    assert.equal(there(step.component).activeJob, undefined, "a second job for one component");
    for (const ref of [step.plugin, step.artifact]) {
      assert.ok(!ref || synced.has(artifactKey(ref)), "runs what was not synced");
    }
    if (step.kind === "destroy") refuseBadDestroy(step, request);
    else refuseBadDeploy(step, there(step.component));
    if (step.kind === "apply") {
      applies.set(step.component, [...(applies.get(step.component) ?? []), clock]);
    }
    const before = records.get(step.component) ?? emptyComponentRecord(step.type);
    const at = { at: Instant.parse(clock), repair: step.repair };
    records.set(step.component, beginComponentJob(before, purposeOf(step, traceOf(step)), at));
    running.push({ step });
  }

  function refuseBadDeploy(step: ComponentStep, seenNow: SeenComponent): void {
    for (const need of step.dependsOn) {
      assert.ok(there(need).deployed, `${step.component} before ${need}`);
    }
    if (!step.plan) return;
    assert.equal(seenNow.plan?.digest, step.plan, "applies a plan nobody made");
    assert.ok(!used.has(step.plan), "applies a plan twice");
    used.add(step.plan);
  }

  function refuseBadDestroy({ component: name }: ComponentStep, request: Wanted): void {
    const { deployed, attempted } = there(name);
    assert.ok(deployed ?? attempted, "destroys what is not there");
    assert.ok(request.mode === "destroyed" || request.allowDestroy.has(name), "destroys unasked");
    if (request.mode === "present") {
      const user = request.components.find(({ dependsOn }) => dependsOn.includes(name));
      assert.equal(user?.name, undefined, `destroys ${name}, on which something wanted depends`);
      return;
    }
    for (const [other, record] of records) {
      const users = [record.deployed, record.attempted].flatMap((trace) => trace?.dependsOn ?? []);
      assert.ok(!users.includes(name), `destroys ${name} below ${other}`);
    }
  }

  function endOne(): void {
    const index = dice.next().value % (running.length + (syncing ? 1 : 0));
    const ended = running[index];
    if (!ended) {
      for (const material of syncing?.materials ?? []) synced.add(artifactKey(material));
      syncing = undefined;
      return;
    }
    running.splice(index, 1);
    const trouble = failures.get(ended.step.component);
    const isHit = trouble && (trouble.hits === "all" || ended.step.kind === "apply");
    end(ended.step, isHit && trouble.times-- > 0 ? trouble.code : undefined);
  }

  function end(step: ComponentStep, code: FailureCode | undefined): void {
    const record = records.get(step.component);
    assert.ok(record, "a job ended that never began");
    const digest: Digest = digestOf({ plan: step.deployKey, number: plans++ });
    const after = endComponentJob(record, {
      purpose: purposeOf(step, traceOf(step)),
      at: Instant.parse(clock),
      failure: code ? { code, message: "no", mayRepeat: true } : undefined,
      plan: { digest, risk: "change", summary: "" },
      outputsDigest: digestOf({ outputsOf: step.artifact?.digest ?? null }),
    });
    if (!after) return void records.delete(step.component);
    records.set(step.component, after);
    const isLooked = step.kind === "apply" && code === undefined;
    if (isLooked) say(step.component, ill.has(step.component) ? "missing" : "healthy");
  }
}

/** What a job leaves. */
function traceOf(step: ComponentStep): DeployedComponent {
  const { deployKey, type, artifact, plugin, config, dependsOn } = step;
  const trace = { deployKey, type, plugin, config, dependsOn };
  return artifact ? { ...trace, artifact } : trace;
}

function downstream(
  components: readonly WantedComponent[],
  failures: ReadonlyMap<string, unknown>,
) {
  const blocked = new Set<string>();
  for (const { name, dependsOn } of components) {
    if (failures.has(name) || dependsOn.some((need) => blocked.has(need))) blocked.add(name);
  }
  return blocked;
}

function names(components: readonly WantedComponent[]): string[] {
  return components.map(({ name }) => String(name)).toSorted();
}

function everything(): Set<ComponentName> {
  return new Set(NAMES.map(named));
}
