import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { CHANGES_MAX, createReport, JobReport, resourcesText } from "./job-report.ts";

const resource = (action: "created" | "read", name: string) =>
  ({ type: "resource", action, kind: "bucket", name }) as const;

describe("what a job did", () => {
  test("counts resources by action, names the changed ones, and keeps the last progress", () => {
    const collector = createReport((text) => text.replace("secret", "***"));

    collector.add(resource("created", "one secret"));
    collector.add(resource("read", "two"));
    collector.add({ type: "progress", message: "first", done: 1, total: 2 });
    collector.add({ type: "progress", message: "second", done: 2, total: 2 });

    const report = collector.report();
    assert.deepEqual(report, {
      resources: { created: 1, read: 1 },
      changes: [{ action: "created", kind: "bucket", name: "one ***" }],
      progress: { message: "second", done: 2, total: 2 },
    });
    assert.equal(report && resourcesText(report), "1 created, 1 read");
    assert.deepEqual(JobReport.parse(report), report);
  });

  test("has a bound, however much the job says", () => {
    const collector = createReport((text) => text);

    for (let count = 0; count < 10_000; count++)
      collector.add(resource("created", "x".repeat(9_999)));

    const report = collector.report();
    assert.equal(report?.resources.created, 10_000);
    assert.equal(report?.changes.length, CHANGES_MAX);
    assert.ok(JSON.stringify(report).length < 32 * 1024);
  });

  test("is absent when it said nothing of the kind", () => {
    const collector = createReport((text) => text);
    collector.add({ type: "log", level: "info", message: "hello" });

    assert.equal(collector.report(), undefined);
  });
});
