import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { job, NOW } from "../testing/builders.ts";
import { agentWith, kinds } from "../testing/core-agent.ts";

function waiting() {
  const agent = agentWith();
  agent.welcome();
  const sync = job("sync", { operation: "sync" });
  agent.offer(sync);
  const give = (registryUrl: string, more = {}) => {
    const grant = { registryUrl, credential: "c", expiresAt: NOW + 1, ...more };
    return agent.frame({ type: "grant", job: sync.id, attempt: 1, grant });
  };
  return { agent, give };
}

describe("a grant", () => {
  test("may name an origin of the trust document", () => {
    assert.ok(kinds(waiting().give("http://vendor.test/registry")).includes("launch"));
  });

  const FOREIGN = {
    "a foreign registry": ["http://evil.test", {}],
    "the vendor's host on another port": ["http://vendor.test:81", {}],
    "a foreign host with the vendor's as its user": ["http://vendor.test@evil.test", {}],
    "a foreign source": ["http://vendor.test", { sourceUrl: "http://evil.test/x" }],
  } as const;
  for (const [what, [url, more]] of Object.entries(FOREIGN)) {
    test(`that names ${what} starts nothing, ends the job and raises an alarm`, () => {
      const { agent, give } = waiting();

      const effects = give(url, more);

      assert.ok(!kinds(effects).includes("launch"));
      const [alarm, end] = agent.told().slice(-2);
      assert.equal(alarm?.type === "alarm" && alarm.code, "foreign_origin");
      assert.ok(end?.type === "job_ended" && end.outcome.kind === "failed");
      assert.equal(end.outcome.code, "forbidden");
    });
  }
});
