// The runtime contract over a cluster in memory, and what only a test that owns the cluster can show. The real one is
// tried in kubernetes-runtime.e2e.ts.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, type TestContext, test } from "node:test";
import { oldestOutput } from "../job-runtime.ts";
import { collect, ended, outputText } from "../testing/job-observation.ts";
import { describeJobRuntime } from "../testing/job-runtime-contract.ts";
import type { JobScript } from "../testing/job-script.ts";
import { cleanUp, prepared, said, started } from "../testing/runtime-under-test.ts";
import { createKubeClient } from "./kube-client.ts";
import { createKubernetesRuntime } from "./kubernetes-runtime.ts";
import { createFakeCluster, type FakeProgram } from "./testing/fake-cluster.ts";

const programs = new Map<string, FakeProgram>();
const cluster = await createFakeCluster(
  (image) => programs.get(image.slice(image.indexOf("@") + 1)) ?? (async () => 127),
);
after(() => cluster.close());

async function create(t: TestContext) {
  cluster.jobs.clear();
  const directory = await mkdtemp(join(tmpdir(), "exclave-kubernetes-"));
  const client = createKubeClient(cluster.connection);
  t.after(async () => {
    client.close();
    await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  });
  const open = () =>
    createKubernetesRuntime({
      client,
      directory,
      namespace: "jobs",
      imageRegistry: "registry.test",
      document: { url: "https://agent.test", ca: "" },
      graceSeconds: 0.2,
      allowanceBytes: 16 * 1024,
    });
  return { runtime: open(), reopen: open, image, directory };
}

async function image(script: JobScript) {
  const digest = `sha256:${String(programs.size).padStart(64, "0")}`;
  programs.set(digest, acted(script));
  return { registryUrl: "memory://", repository: "tests/script", digest };
}

function acted(script: JobScript): FakeProgram {
  if ("text" in script) throw new Error("the cluster in memory runs no shell");
  const { says, ends } = script;
  return async ({ say, terminated }) => {
    for (const line of says) say(`${line}\n`);
    if (typeof ends === "object") return ends.exit;
    if (ends === "on-sigkill") return new Promise(() => undefined);
    if (!terminated.aborted) await once(terminated, "abort");
    throw terminated.reason;
  };
}

describeJobRuntime("the Kubernetes runtime over a cluster in memory", create, { shell: false });

const HANG: JobScript = { says: ["one", "two", "three", "four"], ends: "on-sigterm" };

describe("the Kubernetes runtime tells the truth of what happens in a cluster", () => {
  test("a Job that somebody deleted is lost, and is not started again", async (t) => {
    const { runtime, spec, name, reopen } = await said(create, t, HANG);
    cluster.pods.get(name)?.end({ phase: "Failed" });
    cluster.pods.delete(name);
    cluster.jobs.delete(name);

    const exit = await ended(runtime, name);
    await reopen().start(spec);

    assert.equal(exit.kind, "lost");
    assert.deepEqual(await ended(reopen(), name), exit);
    assert.equal(cluster.jobs.size, 0);
  });

  test("a pod that was deleted is lost with what it said, and the gap is told once", async (t) => {
    const { runtime, name } = await said(create, t, HANG);
    cluster.pods.get(name)?.end({ phase: "Failed" });
    cluster.pods.delete(name);

    assert.equal((await ended(runtime, name)).kind, "lost");
    const reason = await outputText(runtime, name, 8).catch((reason: unknown) => reason);
    const oldest = oldestOutput(reason);

    assert.ok(oldest !== undefined && oldest > 8, String(reason));
    assert.equal(await outputText(runtime, name, oldest), "");
  });

  test("an end that was seen stays the end, also when the cluster forgets it", async (t) => {
    const { runtime, name, reopen } = await started(create, t, { says: ["x"], ends: { exit: 3 } });
    await ended(runtime, name);
    cluster.pods.delete(name);
    cluster.jobs.delete(name);

    assert.deepEqual(await ended(reopen(), name), { kind: "code", code: 3 });
  });

  test("a request that got there and whose answer was lost starts nothing twice", async (t) => {
    const { runtime, spec, name, reopen } = await prepared(create, t, {
      says: ["ran"],
      ends: { exit: 0 },
    });
    await runtime.start(spec);
    await ended(runtime, name);
    const posts = () => cluster.requests.filter((line) => line.startsWith("POST")).length;
    const before = posts();

    await reopen().start(spec);

    assert.equal(posts(), before);
    assert.equal(await outputText(runtime, name), "ran\n");
  });

  test("one that a policy refuses is not there, and can be sent again", async (t) => {
    const { runtime, spec, name } = await prepared(create, t, { says: ["ran"], ends: { exit: 0 } });
    cluster.failNext(/^POST/, 403);

    await assert.rejects(runtime.start(spec), { code: "forbidden" });
    assert.deepEqual(await runtime.inspect(name), { kind: "absent" });
    assert.deepEqual(await runtime.list(), []);
    await runtime.start(spec);

    assert.deepEqual(await ended(runtime, name), { kind: "code", code: 0 });
  });

  test("nobody knows of a request that nobody answered: it is looked up, and sent again if it is not there", async (t) => {
    const { runtime, spec, name } = await prepared(create, t, { says: ["ran"], ends: { exit: 0 } });
    cluster.failNext(/^POST/, 503);

    await assert.rejects(runtime.start(spec), { code: "unavailable" });
    await runtime.start(spec);

    assert.deepEqual(await ended(runtime, name), { kind: "code", code: 0 });
    assert.equal(await outputText(runtime, name), "ran\n");
  });

  test("output is found again by its byte after a restart", async (t) => {
    const { name, reopen } = await said(create, t, HANG);
    const reader = new AbortController();

    const text = await collect(reopen().output(name, 8, reader.signal), (soFar) => {
      if (soFar.endsWith("four\n")) reader.abort();
    });

    assert.equal(text, "three\nfour\n");
  });

  test("what was rotated away is a gap, and what is left is not passed off as the whole", async (t) => {
    const { runtime, name, reopen } = await said(create, t, HANG);
    cluster.rotate(name);

    const reason = await outputText(reopen(), name).catch((reason: unknown) => reason);
    const oldest = oldestOutput(reason);
    assert.ok(oldest !== undefined && oldest > 0, String(reason));
    const reader = new AbortController();
    const rest = await collect(runtime.output(name, oldest, reader.signal), (soFar) => {
      if (soFar.endsWith("four\n")) reader.abort();
    });

    assert.equal(rest, "three\nfour\n");
  });

  test("a job whose log passes its limit by far is ended for it", async (t) => {
    const under = await create(t);
    const digest = `sha256:${String(programs.size).padStart(64, "0")}`;
    programs.set(digest, async ({ say, terminated }) => {
      for (let count = 0; count < 40; count++) say(`${"x".repeat(1024)}\n`);
      if (!terminated.aborted) await once(terminated, "abort");
      throw terminated.reason;
    });
    const { spec } = await prepared(async () => under, t, HANG);
    const chatty = { ...spec, image: { ...spec.image, digest }, limits: { logBytesMax: 1024 } };
    cleanUp(t, under.runtime, chatty.name);
    await under.runtime.start(chatty);

    await outputText(under.runtime, chatty.name);

    const exit = await ended(under.runtime, chatty.name);
    assert.ok(exit.kind === "over-limit", JSON.stringify(exit));
  });
});
