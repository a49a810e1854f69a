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

const MIB = 1024 * 1024;

/** Feeds `bytes` bytes in pieces, as a file is read, without ever having them together. */
function feed(head: string, bytes: number, tail: string) {
  const reader = createJobOutput({ secrets: [], logBytesMax: 64 * 1024 });
  const piece = Buffer.alloc(MIB, "x");
  let log = reader.read(Buffer.from(head));
  let held = 0;
  for (let fed = 0; fed < bytes; fed += MIB) {
    log += reader.read(piece);
    held = Math.max(held, process.memoryUsage().arrayBuffers);
  }
  log += reader.read(Buffer.from(tail)) + reader.end();
  return { log, held, collected: reader.collected };
}

test("a sensitive output of any size is never in the log: over the limit the job fails", () => {
  const secret = "topsecret-value-";
  for (const kind of ["output", "log"]) {
    const head = `{"type":"${kind}","name":"key","sensitive":true,"value":"${secret}`;
    const { log, collected } = feed(head, 5 * MIB, `"}\n{"type":"result","ok":true}\n`);

    assert.ok(!log.includes("topsecret") && !log.includes("xxxx"), log.slice(0, 200));
    assert.match(log, /a message of [0-9]+ bytes was left out/);
    assert.match(collected.refused ?? "", /message of [0-9]+ bytes, which may have 4194304/);
    assert.equal(collected.outputs.size, 0);
  }
});

test("a line of 600 MB costs a few MB, and the log says that it was cut", () => {
  const before = process.memoryUsage().arrayBuffers;

  const { log, held, collected } = feed(
    "start ",
    600 * MIB,
    '\nnext\n{"type":"result","ok":true}\n',
  );

  assert.ok(held - before < 64 * MIB, `${(held - before) / MIB} MiB were held`);
  assert.match(
    log,
    /^\[the beginning of a line of 629145606 bytes\] start x+ \[the rest was left out\]\nnext\n$/,
  );
  assert.equal(collected.result?.ok, true);
  assert.equal(collected.refused, undefined);
});

test("a secret at the edge of a cut line is not shown in part", () => {
  const reader = createJobOutput({ secrets: ["hunter22-is-long"], logBytesMax: 10 * MIB });
  const text = `${"y".repeat(16 * 1024 - 60)}hunter22-is-long${"z".repeat(5 * MIB)}\n`;

  const log = reader.read(Buffer.from(text)) + reader.end();

  assert.ok(!log.includes("hunter"), log.slice(-200));
});

test("what a job calls sensitive is redacted from there on, each leaf of it", () => {
  const value = { user: "dbadmin-7", ports: [543210], keys: { inner: "leaf-value-1" } };
  const { log } = read(
    lines(
      { type: "output", name: "db", value, sensitive: true },
      "dbadmin-7 at 543210 with leaf-value-1",
      { type: "result", ok: false, failure: { code: "tool", message: "bad leaf-value-1" } },
    ),
  );

  assert.equal(
    log,
    "output db = (sensitive)\n[redacted] at [redacted] with [redacted]\nfailed: bad [redacted]\n",
  );
});

test("an output that is too deep or has too many values fails the job and shows nothing of it", () => {
  const deep = `${"[".repeat(1_000)}"deep-secret"${"]".repeat(1_000)}`;
  const many = JSON.stringify(Array.from({ length: 10_001 }, (_, index) => `many-secret-${index}`));
  for (const value of [deep, many]) {
    const text = `{"type":"output","name":"a","sensitive":true,"value":${value}}\n`;
    const { log, collected } = read(text);

    assert.match(log, /^failed: its output "a" /);
    assert.ok(!log.includes("secret"));
    assert.match(collected.refused ?? "", /its output "a"/);
    assert.equal(collected.outputs.size, 0);
  }
});

test("what a job says of resources and progress is kept as values too, without secrets", () => {
  const { collected } = read(
    lines(
      { type: "resource", action: "created", kind: "bucket", name: "b-hunter22-long" },
      { type: "progress", message: "half", done: 1, total: 2 },
      { type: "result", ok: true },
    ),
    { secrets: ["hunter22-long"] },
  );

  assert.deepEqual(collected.report?.resources, { created: 1 });
  assert.deepEqual(collected.report?.progress, { message: "half", done: 1, total: 2 });
  assert.ok(!JSON.stringify(collected.report).includes("hunter22"));
});
