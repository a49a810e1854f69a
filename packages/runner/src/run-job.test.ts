import assert from "node:assert/strict";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { type ArtifactLine, type ArtifactRef, Digest, type JobLine } from "@exclave/core";
import {
  createJobFixture,
  type JobFixture,
  type JobRun,
  SAMPLE_PLUGIN,
  serveSource,
} from "./testing/job-fixture.ts";

const REPOSITORY = "apps/shop/web";
const ABSENT = Digest.parse(`sha256:${"0".repeat(64)}`);

async function sample(t: TestContext): Promise<JobFixture> {
  const fixture = await createJobFixture(t);
  await fixture.addPluginFile("plugin.mjs", SAMPLE_PLUGIN);
  return fixture;
}

const outputsOf = ({ lines }: JobRun) =>
  Object.fromEntries(
    lines.flatMap((line) => (line.type === "output" ? [[line.name, line.value]] : [])),
  );

function artifactsOf({ lines }: JobRun): ArtifactLine[] {
  return lines.filter((line: JobLine) => line.type === "artifact");
}

async function built(t: TestContext, fixture: JobFixture): Promise<ArtifactRef> {
  const run = await fixture.run({
    operation: "build",
    source: await serveSource(t, { "input.txt": "text" }),
    pushTo: { url: fixture.registryUrl, repository: REPOSITORY },
  });
  assert.deepEqual(run.result, { type: "result", ok: true });
  const [artifact] = artifactsOf(run);
  assert.ok(artifact);
  return { repository: artifact.repository, digest: artifact.digest };
}

test("a build's source becomes an artifact, and an apply finds its files", async (t) => {
  const fixture = await sample(t);

  const artifact = await built(t, fixture);
  const run = await fixture.run({ operation: "apply", artifact });

  assert.equal(artifact.repository, REPOSITORY);
  assert.equal(outputsOf(run).file, "TEXT");
  assert.deepEqual(run.result, { type: "result", ok: true });
});

test("the same source gives the same artifact", async (t) => {
  const fixture = await sample(t);

  assert.deepEqual(await built(t, fixture), await built(t, fixture));
});

test("a source that is not what its digest says is not unpacked", async (t) => {
  const fixture = await sample(t);
  const source = await serveSource(t, { "input.txt": "text" });

  const { result, jobDirectory } = await fixture.run({
    operation: "build",
    source: { ...source, digest: ABSENT },
    pushTo: { url: fixture.registryUrl, repository: REPOSITORY },
  });

  assert.equal(result.ok, false);
  assert.match(result.failure?.message ?? "", /does not match sha256:0000/);
  assert.deepEqual(await readdir(join(jobDirectory, "source")), []);
});

test("a source the server does not hand out is a failure to retry", async (t) => {
  const fixture = await sample(t);
  const source = await serveSource(t, { "input.txt": "text" });

  const { result } = await fixture.run({
    operation: "build",
    source: { ...source, token: "wrong" },
  });

  assert.deepEqual(result.failure, {
    code: "unavailable",
    message: "the server answered 401 for the source",
  });
});

test("an artifact that is not in the registry is not synced, and the plugin is not called", async (t) => {
  const fixture = await sample(t);

  const { result, lines } = await fixture.run({
    artifact: { repository: REPOSITORY, digest: ABSENT },
  });

  assert.equal(result.failure?.code, "not_synced");
  assert.equal(lines.length, 1);
});

test("an artifact whose bytes were altered in the registry is refused", async (t) => {
  const fixture = await sample(t);
  const artifact = await built(t, fixture);
  const { bytes } = await fixture.registry.readManifest(REPOSITORY, artifact.digest);
  const [layer] = JSON.parse(Buffer.from(bytes).toString("utf8")).layers;
  const path = await findFile(fixture.registryDirectory, layer.digest.slice(7));
  const content = await readFile(path);
  content[content.length - 1] = (content.at(-1) ?? 0) ^ 1;
  await writeFile(path, content);

  const { result } = await fixture.run({ artifact });

  assert.equal(result.ok, false);
  assert.match(result.failure?.message ?? "", /does not match|altered|digest/);
});

async function findFile(directory: string, hex: string): Promise<string> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile() && path.includes(hex) && (await stat(path)).size > 0) return path;
  }
  throw new Error(`no file of ${hex}`);
}

test("an operation that needs to know only whether the artifact is there is told so", async (t) => {
  const fixture = await sample(t);
  const artifact = await built(t, fixture);

  const there = await fixture.run({ operation: "status", artifact });
  const gone = await fixture.run({
    operation: "status",
    artifact: { repository: REPOSITORY, digest: ABSENT },
  });

  assert.equal(there.result.health, "healthy");
  assert.deepEqual(await readdir(join(there.jobDirectory, "artifact/files")), []);
  assert.deepEqual(gone.result, {
    type: "result",
    ok: true,
    health: "missing",
    because: "the artifact is gone",
  });
});

test("what a plugin throws is the plugin's failure, a Failure keeps its code", async (t) => {
  const fixture = await sample(t);

  const thrown = await fixture.run({ config: { mode: "throws" } });
  const failed = await fixture.run({ config: { mode: "fails" } });

  assert.deepEqual(thrown.result.failure, {
    code: "plugin",
    message: "cannot read properties of undefined",
  });
  assert.deepEqual(failed.result.failure, {
    code: "conflict",
    message: "somebody else is at work",
  });
});

test("an operation the plugin does not have, and an image without a plugin, are told apart", async (t) => {
  const fixture = await sample(t);
  const bare = await createJobFixture(t);

  const unknown = await fixture.run({ operation: "logs" });
  const none = await bare.run({ operation: "apply" });

  assert.match(
    unknown.result.failure?.message ?? "",
    /the plugin sample has no logs; it offers build/,
  );
  assert.match(none.result.failure?.message ?? "", /this image has no plugin/);
});

test("a plan is kept by digest for the owner alone, and apply gets exactly that one", async (t) => {
  const fixture = await sample(t);
  const planned = await fixture.run({ operation: "plan", config: { message: "one" } });
  await fixture.run({ operation: "plan", config: { message: "two" } });
  const { digest = "" } = planned.result.plan ?? {};

  const applied = await fixture.run({ parameters: { plan: digest } });

  assert.equal(planned.result.plan?.risk, "change");
  assert.equal(planned.result.plan?.summary, "1 to say");
  assert.equal(outputsOf(applied).plan, "say one");
  const file = join(fixture.stateDirectory, "plans", digest.slice(7));
  assert.equal((await stat(file)).mode & 0o777, 0o600);
});

test("an altered plan, a missing one and a wrong name are conflicts, and nothing is applied", async (t) => {
  const fixture = await sample(t);
  const { result } = await fixture.run({ operation: "plan" });
  const { digest = "" } = result.plan ?? {};
  await writeFile(join(fixture.stateDirectory, "plans", digest.slice(7)), "say something else");

  const altered = await fixture.run({ parameters: { plan: digest } });
  const missing = await fixture.run({ parameters: { plan: ABSENT } });
  const wrong = await fixture.run({ parameters: { plan: "../../etc/passwd" } });

  assert.equal(altered.result.failure?.code, "conflict");
  assert.match(altered.result.failure?.message ?? "", /was altered; plan again/);
  assert.equal(missing.result.failure?.code, "conflict");
  assert.equal(wrong.result.failure?.code, "invalid");
  assert.ok([altered, missing, wrong].every(({ lines }) => lines.length === 1));
});

test("exec's exit code is part of a good result", async (t) => {
  const fixture = await sample(t);

  const { result } = await fixture.run({ operation: "exec" });

  assert.deepEqual(result, { type: "result", ok: true, exitCode: 9 });
});

test("no line holds a secret, and an output that does is sensitive", async (t) => {
  const fixture = await sample(t);
  const secret = 'p4ss"word';

  const run = await fixture.run({ config: { message: secret }, secrets: [secret] });

  const logs = run.lines.filter(({ type }) => type !== "output");
  assert.doesNotMatch(JSON.stringify(logs), /p4ss/);
  assert.ok(logs.length > 1);
  const output = run.lines.find((line) => line.type === "output" && line.name === "message");
  assert.deepEqual(output, { type: "output", name: "message", value: secret, sensitive: true });
});
