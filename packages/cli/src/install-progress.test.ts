import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { InstallView, JobView } from "@exclave/api";
import { installLines, judgeDeploy, judgeDestroy } from "./install-progress.ts";
import { componentView, installView, jobView } from "./testing/views.ts";

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
    const holds = [{ component: "web", because: "api is not deployed", endsWhen: "api is" }];

    const verdict = judgeDeploy(seen({ phase: "held", health: "missing", holds }));

    assert.equal(verdict.kind, "waiting");
    assert.ok(verdict.lines.includes("  waits: web: api is not deployed; ends when api is"));
  });

  test("gives up when a component failed for good and nothing is at work", () => {
    const components = [componentView("web", { state: "failed" })];
    const holds = [{ component: "web", because: "it exited with 3", endsWhen: "it changes" }];

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
      { component: "web", because: "backing off", endsWhen: "at 10:00 it is tried again" },
    ];
    const away = { id: null, status: "offline", since: 1 } as const;

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

    const verdict = judgeDeploy(seen({ phase: "setting-up", health: "unknown", agent }, [setup]));

    assert.equal(verdict.kind, "failed");
    assert.match("because" in verdict ? verdict.because : "", /the setup failed: no room/);
  });
});

describe("judgeDestroy", () => {
  test("is done when the install is gone, and waits before", () => {
    assert.equal(judgeDestroy(seen({ phase: "destroyed", components: [] })).kind, "done");
    assert.equal(judgeDestroy(seen({ phase: "destroying" })).kind, "waiting");
  });

  test("gives up when the sandbox could not be taken down and is not tried again", () => {
    const setup = jobView({ component: "sandbox", operation: "destroy", state: "failed" });
    const later = [
      { component: null, because: "it failed", endsWhen: "it is tried again at 2026-01-02" },
    ];
    const bare = { phase: "destroying", components: [] } as const;

    assert.equal(judgeDestroy(seen({ ...bare, components: [] }, [setup])).kind, "failed");
    assert.equal(
      judgeDestroy(seen({ ...bare, components: [], holds: later }, [setup])).kind,
      "waiting",
    );
  });
});

test("one line per component, with the reason where it is not well", () => {
  const components = [componentView("web", { health: "degraded", healthBecause: "answers 500" })];

  const lines = installLines(installView({ components, health: "degraded" }));

  assert.equal(lines[0], "acme: settled, release 1, agent online, degraded");
  assert.equal(lines[1], "  web          service    deployed   degraded (answers 500)");
});
