import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { InstallView, JobView } from "@exclave/api";
import { componentView, installView, jobView } from "../testing/views.ts";
import { installLines, judgeDeploy, judgeDestroy } from "./install-progress.ts";

function seen(given: Partial<InstallView>, jobs: JobView[] = []) {
  return { install: installView(given), jobs };
}

describe("judgeDeploy", () => {
  test("is done when everything is there as wanted and well", () => {
    assert.equal(judgeDeploy(seen({})).kind, "done");
  });

  test("waits for a component that is there and not yet known to be well", () => {
    const components = [componentView("web", { health: "unknown" })];

    const verdict = judgeDeploy(seen({ components, health: "unknown" }));

    assert.deepEqual([verdict.kind, "missing" in verdict && verdict.missing], ["waiting", "web"]);
  });

  test("waits with the reason of the first hold", () => {
    const holds = [
      { component: "web", because: "api is not deployed", endsWhen: "api is", command: null },
    ];

    const verdict = judgeDeploy(seen({ phase: "held", health: "missing", holds }));

    assert.equal(verdict.kind, "waiting");
    assert.ok(
      verdict.lines.includes("  waits: web: api is not deployed; ends by itself when api is"),
    );
  });

  test("gives up when a component failed for good and nothing is at work", () => {
    const components = [componentView("web", { state: "failed" })];
    const holds = [
      { component: "web", because: "it exited with 3", endsWhen: "it changes", command: null },
    ];

    const verdict = judgeDeploy(seen({ phase: "held", health: "degraded", components, holds }));

    assert.deepEqual(
      [verdict.kind, "because" in verdict && verdict.because],
      ["failed", "web failed: it exited with 3"],
    );
  });

  test("goes on while another component is at work, the agent is away, or time alone helps", () => {
    const failed = componentView("web", { state: "failed" });
    const held = { phase: "held", health: "degraded" } as const;
    const busy = [failed, componentView("api", { activeJob: "j" })];
    const later = [
      {
        component: "web",
        because: "backing off",
        endsWhen: "at 10:00 it is retried",
        command: null,
      },
    ];
    const away = { id: null, status: "offline", since: "2026-01-02T03:04:05Z" } as const;

    assert.equal(judgeDeploy(seen({ ...held, components: busy })).kind, "waiting");
    assert.equal(
      judgeDeploy(seen({ ...held, components: [failed], holds: later })).kind,
      "waiting",
    );
    assert.equal(judgeDeploy(seen({ ...held, components: [failed], agent: away })).kind, "waiting");
  });

  test("gives up on a setup that failed before the agent ever came", () => {
    const setup = jobView({
      component: "sandbox",
      state: "failed",
      failure: { code: "tool", message: "no room" },
    });
    const agent = { id: null, status: "never", since: null } as const;
    const begun = { phase: "setting-up", health: "unknown", agent } as const;
    const holds = [
      {
        component: null,
        because: "the setup failed",
        endsWhen: "somebody asks for a retry",
        command: null,
      },
    ];

    const verdict = judgeDeploy(seen({ ...begun, holds }, [setup]));
    const retried = judgeDeploy(seen(begun, [setup]));

    assert.equal(verdict.kind, "failed");
    assert.match("because" in verdict ? verdict.because : "", /the setup failed: no room/);
    assert.equal(retried.kind, "waiting");
  });
});

describe("judgeDestroy", () => {
  test("is done when the install is gone, and waits before", () => {
    assert.equal(judgeDestroy(seen({ phase: "destroyed", components: [] })).kind, "done");
    assert.equal(judgeDestroy(seen({ phase: "destroying" })).kind, "waiting");
  });

  const ask = "`exclave install destroy acme` asks for a retry";

  test("gives up when the sandbox could not be taken down and is not retried", () => {
    const failure = { code: "tool", message: "it is busy" } as const;
    const teardown = jobView({ component: "sandbox", operation: "destroy", state: "failed" });
    const bare = (endsWhen: string) => ({
      phase: "destroying" as const,
      components: [],
      holds: [{ component: null, because: "the teardown failed", endsWhen, command: null }],
    });
    const jobs = [{ ...teardown, failure }];

    const verdict = judgeDestroy(seen(bare(ask), jobs));
    const later = judgeDestroy(seen(bare("it is retried at 2026-01-02"), jobs));

    assert.ok(verdict.kind === "failed");
    assert.match(verdict.because, /^the sandbox could not be destroyed: it is busy \(job j/);
    assert.equal(verdict.endsWhen, ask);
    assert.equal(later.kind, "waiting");
  });

  test("gives up when a component failed for good and nothing is at work, and says what helps", () => {
    const web = componentView("web", { state: "failed" });
    const holds = [
      { component: "web", because: "destroy failed (plugin): no", endsWhen: ask, command: null },
    ];
    const destroying = { phase: "destroying", holds } as const;
    const busy = [web, componentView("api", { activeJob: "j" })];

    const verdict = judgeDestroy(seen({ ...destroying, components: [web] }));

    assert.ok(verdict.kind === "failed");
    assert.equal(verdict.because, "web could not be destroyed: destroy failed (plugin): no");
    assert.equal(verdict.endsWhen, ask);
    assert.equal(judgeDestroy(seen({ ...destroying, components: busy })).kind, "waiting");
  });

  test("goes on right after a retry was asked for, when only the old failure is to be seen", () => {
    const teardown = jobView({ component: "sandbox", operation: "destroy", state: "failed" });
    const web = componentView("web", { state: "failed" });

    const bare = judgeDestroy(seen({ phase: "destroying", components: [] }, [teardown]));
    const full = judgeDestroy(seen({ phase: "destroying", components: [web] }));

    assert.deepEqual([bare.kind, full.kind], ["waiting", "waiting"]);
  });
});

test("one line per component, with the reason where it is not well", () => {
  const components = [componentView("web", { health: "degraded", healthBecause: "answers 500" })];

  const lines = installLines(installView({ components, health: "degraded" }));

  assert.equal(lines[0], "acme: settled, release 1, agent online, degraded");
  assert.equal(lines[1], "  web          service    deployed   degraded (answers 500)");
});
