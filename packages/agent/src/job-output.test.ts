import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { createJobOutput } from "./job-output.ts";

const DIGEST = `sha256:${"a".repeat(64)}`;

function read(
  text: string,
  options: { secrets?: string[]; logBytesMax?: number; cuts?: number[] } = {},
) {
  const { secrets = [], logBytesMax = 10_000, cuts = [] } = options;
  const reader = createJobOutput({ secrets, logBytesMax });
  const bytes = Buffer.from(text);
  const places = [
    0,
    ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b),
    bytes.length,
  ];
  let log = "";
  for (let index = 1; index < places.length; index++) {
    log += reader.read(bytes.subarray(places[index - 1], places[index]));
  }
  return { log: log + reader.end(), collected: reader.collected };
}

const lines = (...values: unknown[]) =>
  values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join("\n");

test("keeps plain text as it is and shows what lines mean", () => {
  const { log } = read(
    lines(
      "plain",
      { type: "log", message: "hello" },
      { type: "log", level: "warn", message: "careful" },
      { type: "resource", action: "created", kind: "file", name: "a.txt" },
      { type: "progress", message: "copying", done: 1, total: 2 },
      { type: "output", name: "url", value: "http://x" },
      { type: "output", name: "key", value: "topsecret", sensitive: true },
      { type: "result", ok: true },
    ),
  );

  assert.deepEqual(log.split("\n"), [
    "plain",
    "hello",
    "warn: careful",
    "created file a.txt",
    "copying (1 of 2)",
    'output url = "http://x"',
    "output key = (sensitive)",
    "",
  ]);
});

test("collects outputs, artifacts and the last result", () => {
  const { collected } = read(
    lines(
      { type: "output", name: "n", value: 1 },
      { type: "output", name: "n", value: 2 },
      { type: "artifact", name: "api", repository: "apps/crm/api", digest: DIGEST },
      { type: "result", ok: false },
      { type: "result", ok: true, health: "healthy" },
    ),
  );

  assert.equal(collected.outputs.get("n")?.value, 2);
  assert.deepEqual(
    collected.artifacts.map(({ digest }) => digest),
    [DIGEST],
  );
  assert.equal(collected.result?.health, "healthy");
});

test("takes secrets out of the log and out of the result, and leaves outputs whole", () => {
  const { log, collected } = read(
    lines(
      "connecting with hunter22-long",
      { type: "output", name: "url", value: "postgres://u:hunter22-long@db", sensitive: true },
      {
        type: "result",
        ok: false,
        failure: { code: "tool", message: "bad password hunter22-long" },
      },
    ),
    { secrets: ["hunter22-long"] },
  );

  assert.ok(!log.includes("hunter22"));
  assert.ok(!JSON.stringify(collected.result).includes("hunter22"));
  assert.equal(collected.outputs.get("url")?.value, "postgres://u:hunter22-long@db");
});

test("a log over its limit says so, and the result still counts", () => {
  const { log, collected } = read(
    lines("x".repeat(50), "y".repeat(80), { type: "result", ok: true }),
    {
      logBytesMax: 100,
    },
  );

  assert.match(
    log,
    /^x{50}\n\[the log is over its limit of 100 bytes and ends here\]\n\[81 bytes of log/,
  );
  assert.equal(collected.result?.ok, true);
});

test("a failure and a status are said in words", () => {
  const failed = { type: "result", ok: false, failure: { code: "tool", message: "no helm" } };
  const seen = { type: "result", ok: true, health: "degraded", because: "no answer" };

  assert.equal(read(lines(failed, seen)).log, "failed: no helm\ndegraded: no answer\n");
});

test("a line that is no message of a job is text", () => {
  assert.equal(read('{"type":"surprise"}\n{ not json').log, '{"type":"surprise"}\n{ not json\n');
});

test("gives the same log however the output is cut into pieces", () => {
  const text = lines("grüße", { type: "log", message: "a\nb" }, "secret-value", "", "end");
  const whole = read(text, { secrets: ["secret-value"] }).log;
  fc.assert(
    fc.property(fc.array(fc.nat(200), { maxLength: 8 }), (cuts) => {
      assert.equal(read(text, { secrets: ["secret-value"], cuts }).log, whole);
    }),
  );
});
