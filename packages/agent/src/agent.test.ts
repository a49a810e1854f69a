import assert from "node:assert/strict";
import { createHash, generateKeyPairSync } from "node:crypto";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type AgentFrame, createSystemTimers, type ServerFrame } from "@exclave/api";
import {
  AgentId,
  evaluateConfig,
  Failure,
  type JobName,
  jobName,
  type Manifest,
} from "@exclave/core";
import type { JobRuntime } from "@exclave/runtime";
import { createFakeRuntime, type FakePlace, type FakeProgram } from "@exclave/runtime/testing";
import { type Agent, startAgent } from "./agent.ts";
import { createJobs } from "./job/jobs.ts";
import type { Workplace } from "./job/prepare-job.ts";
import { createSpool } from "./job/spool.ts";
import type { Journal } from "./journal/journal.ts";
import { createSqliteJournal } from "./journal/sqlite-journal.ts";
import { createNotices, type Notices } from "./notices.ts";
import {
  ACME,
  createDirector,
  DIGEST,
  type Director,
  GLOBEX,
  job,
  jobId,
  memoryTrust,
  silentLog,
  testRules,
} from "./testing/builders.ts";
import { type LinkServer, startLinkServer } from "./testing/link-server.ts";
import { temporaryDirectory } from "./testing/temporary-directory.ts";

const OK = `${JSON.stringify({ type: "result", ok: true })}\n`;

interface Bench {
  readonly server: LinkServer;
  readonly director: Director;
  readonly place: FakePlace;
  readonly starts: JobName[];
  readonly home: string;
  readonly isHeld: { value: boolean };
  readonly isReleased: { value: boolean };
  /** How many commits will find the disk full. */
  readonly fullDisk: { commits: number };
  /** How many stops the runtime will not carry out. */
  readonly failing: { stops: number; removes: number };
  readonly notices: Notices;
  startAgent(): Promise<Agent>;
  openJournal(): Journal;
}

/** A server, a home and a runtime that outlive any agent that is started on them. */
async function bench(t: TestContext, program: FakeProgram): Promise<Bench> {
  const home = await temporaryDirectory(t);
  const server = await startLinkServer(t, { answer: giveAccess });
  const director = createDirector();
  const place: FakePlace = new Map();
  const starts: JobName[] = [];
  const isHeld = { value: true };
  const isReleased = { value: true };
  const fullDisk = { commits: 0 };
  const failing = { stops: 0, removes: 0 };
  const notices = createNotices();
  const keys = generateKeyPairSync("ed25519");
  const identity = {
    version: 1,
    agent: AgentId.parse("aaaaaaaaaaaaaaaaa"),
    kind: "install",
    audience: ACME,
    keyGeneration: 1,
    serverUrl: server.url,
    identityKey: keys.privateKey.export({ format: "pem", type: "pkcs8" }).toString(),
    sealingKey: "",
  } as const;
  const openJournal = () => createSqliteJournal({ path: join(home, "agent", "journal.db") });

  async function start(): Promise<Agent> {
    const journal = fillable(openJournal(), fullDisk);
    const fake = createFakeRuntime({
      place,
      programOf: () => async (running) => {
        starts.push(running.spec.name);
        return program(running);
      },
    });
    const runtime: JobRuntime = {
      ...fake,
      async stop(name, graceMs) {
        if (failing.stops-- > 0) throw new Failure("unavailable", "the runtime is away");
        await fake.stop(name, graceMs);
      },
      async remove(name) {
        if (failing.removes-- > 0) throw new Failure("unavailable", "the runtime is away");
        await fake.remove(name);
      },
    };
    const spool = createSpool({ directory: join(home, "spool") });
    const workplace: Workplace = {
      journal,
      evaluate: evaluateConfig,
      origins: () => ["http://vendor.test"],
      own: {
        id: ACME,
        name: "acme",
        sandbox: {},
        registry: {
          url: "http://install.test",
          repository: "",
          mountFrom: [],
          token: async () => "token",
          tokenFor: async () => "token",
        },
        holds: async () => isHeld.value,
        runner: { pin: async () => {}, restore: async () => false },
      },
      gate: {
        async admit() {
          refuse(isReleased.value);
          return { writes: [], statements: [] };
        },
        statusOf: async (applied) => ({
          ...applied,
          operation: "status",
          steps: applied.steps.map((step) => ({ ...step, operation: "status", parameters: {} })),
        }),
      },
    };
    const now = Date.now;
    const timers = createSystemTimers();
    const jobs = createJobs({
      runtime,
      spool,
      journal,
      place: workplace,
      now,
      timers,
      log: silentLog,
    });
    const agent = await startAgent({
      identity,
      trust: memoryTrust(director),
      version: "0",
      platform: "test",
      bootId: "boot",
      rules: testRules(),
      journal,
      runtime,
      spool,
      jobs,
      freeBytes: async () => 1,
      freeBytesMin: 0,
      notices,
      timers,
      journalRetryMs: 10,
      runtimeRetryMs: 10,
      now,
      random: () => 0,
      log: silentLog,
    });
    let isOver = false;
    const stop = async () => {
      if (isOver) return;
      isOver = true;
      await agent.stop();
      journal.close();
    };
    t.after(stop);
    return { stop };
  }
  return {
    server,
    director,
    place,
    starts,
    home,
    isHeld,
    isReleased,
    fullDisk,
    failing,
    notices,
    startAgent: start,
    openJournal,
  };
}

/** Registry access for whoever asks. */
function giveAccess(frame: AgentFrame): ServerFrame | undefined {
  if (frame.type !== "grant_want") return undefined;
  const { job, attempt } = frame;
  const grant = { registryUrl: "https://vendor.test", token: "granted", expiresAt: 1 };
  return { type: "grant", job, attempt, grant };
}

function refuse(isReleased: boolean): void {
  if (!isReleased) throw new Failure("unreleased", "no verified statement says so");
}

function fillable(journal: Journal, fullDisk: Bench["fullDisk"]): Journal {
  return {
    ...journal,
    commit(writes) {
      if (writes.length > 0 && fullDisk.commits > 0) {
        fullDisk.commits--;
        throw new Failure("disk_full", "there is no room left for the agent's journal");
      }
      journal.commit(writes);
    },
  };
}

function current(name: string, changes: Parameters<typeof job>[1] = {}): Manifest {
  const now = Date.now();
  return job(name, {
    notBefore: (now - 1_000) as never,
    notAfter: (now + 60_000) as never,
    ...changes,
  });
}

function offer({ server, director }: Bench, manifest: Manifest): void {
  const { id, attempt } = manifest;
  server.command({ type: "job_offer", job: id, attempt, envelope: director.seal(manifest) });
}

const endOf = ({ server }: Bench, { id }: Manifest) =>
  server.events.find((event) => event.type === "job_ended" && event.job === id);
const nameOf = ({ id, attempt }: Manifest): JobName => jobName(id, attempt);

test("a job that is offered runs, and its end, outputs and log arrive", async (t) => {
  const line = JSON.stringify({ type: "output", name: "url", value: "http://x" });
  const b = await bench(t, async ({ say, spec }) => {
    const { operation } = JSON.parse(spec.files["job.json"] ?? "{}");
    say(`doing ${operation}\n${line}\n${"many words\n".repeat(500)}${OK}`);
    return 0;
  });
  const manifest = current("apply");
  await b.startAgent();

  offer(b, manifest);
  await b.server.until(() => endOf(b, manifest) !== undefined, "the job has ended");

  const end = endOf(b, manifest);
  assert.ok(end?.type === "job_ended");
  assert.deepEqual(end.outcome, { kind: "succeeded" });
  assert.deepEqual(end.outputs, [{ name: "url", sensitive: false, value: "http://x" }]);
  assert.match(end.outputsDigest ?? "", /^hmac-sha256:/);
  await b.server.until(() => b.server.log(manifest.id).length >= end.logBytes, "the log is whole");
  const log = b.server.log(manifest.id);
  assert.equal(createHash("sha256").update(log).digest("hex"), end.logSha256);
  assert.ok(log.startsWith("doing apply\n") && log.endsWith("many words\n"));
  assert.deepEqual(
    b.server.events.map(({ type }) => type),
    ["inventory", "job_accepted", "job_started", "job_ended"],
  );
});

test("an agent that dies while a job runs finds it again: one start, one end", async (t) => {
  const go = Promise.withResolvers<void>();
  const b = await bench(t, async ({ say }) => {
    say("first half\n");
    await go.promise;
    say(`second half\n${OK}`);
    return 0;
  });
  const manifest = current("apply");
  const first = await b.startAgent();
  offer(b, manifest);
  await b.server.until(() => b.server.log(manifest.id).includes("first half"), "it runs");

  await first.stop();
  go.resolve();
  await b.startAgent();
  await b.server.until(() => endOf(b, manifest) !== undefined, "the job has ended");

  assert.deepEqual(b.starts, [nameOf(manifest)]);
  const ends = b.server.events.filter(({ type }) => type === "job_ended");
  assert.equal(ends.length, 1);
  await b.server.until(() => b.server.log(manifest.id).includes("second"), "the log is whole");
  assert.equal(b.server.log(manifest.id), "first half\nsecond half\n");
});

test("a job ends while the server is away, and nothing is missing when it is back", async (t) => {
  const go = Promise.withResolvers<void>();
  const b = await bench(t, async ({ say }) => {
    await go.promise;
    say(`done without you\n${OK}`);
    return 0;
  });
  const manifest = current("apply");
  await b.startAgent();
  offer(b, manifest);
  const isStarted = () => b.server.events.some(({ type }) => type === "job_started");
  await b.server.until(isStarted, "it runs");

  b.server.cut();
  go.resolve();
  await b.server.until(() => endOf(b, manifest) !== undefined, "the end arrived");

  await b.server.until(() => b.server.log(manifest.id).includes("without you"), "the log arrived");
  assert.deepEqual(b.starts, [nameOf(manifest)]);
});

test("after the server has everything, the job is gone from runtime, spool and journal", async (t) => {
  const b = await bench(t, async ({ say }) => {
    say(`a word\n${OK}`);
    return 0;
  });
  const manifest = current("apply");
  const agent = await b.startAgent();
  offer(b, manifest);
  await b.server.until(() => b.server.log(manifest.id) === "a word\n", "the log is whole");
  await b.server.until(() => endOf(b, manifest) !== undefined, "the job has ended");

  // A later command is taken only after the acknowledgements before it.
  const next = current("next");
  offer(b, next);
  await b.server.until(() => endOf(b, next) !== undefined, "the next job has ended");
  await agent.stop();

  const journal = b.openJournal();
  t.after(() => journal.close());
  const names = journal.load().jobs.map(({ name }) => name);
  assert.ok(!names.includes(nameOf(manifest)));
  assert.ok(!b.place.has(nameOf(manifest)));
});

test("a job that is not synced is not started, and says what is missing", async (t) => {
  const b = await bench(t, async () => 0);
  b.isHeld.value = false;
  const manifest = current("apply");
  await b.startAgent();

  offer(b, manifest);
  await b.server.until(() => endOf(b, manifest) !== undefined, "the job has ended");

  const end = endOf(b, manifest);
  assert.ok(end?.type === "job_ended" && end.outcome.kind === "failed");
  assert.equal(end.outcome.code, "not_synced");
  assert.ok(end.outcome.message.includes(DIGEST));
  assert.deepEqual(b.starts, []);
});

for (const operation of ["apply", "sync"] as const) {
  test(`a job that no verified statement admits is not started: ${operation}`, async (t) => {
    const b = await bench(t, async () => 0);
    b.isReleased.value = false;
    const manifest = current(operation, { operation });
    await b.startAgent();

    offer(b, manifest);
    await b.server.until(() => endOf(b, manifest) !== undefined, "the job has ended");

    const end = endOf(b, manifest);
    assert.ok(end?.type === "job_ended" && end.outcome.kind === "failed");
    assert.equal(end.outcome.code, "unreleased");
    assert.deepEqual(b.starts, []);
  });
}

test("a lying server starts nothing, and each refusal is on record", async (t) => {
  const b = await bench(t, async () => 0);
  const stranger = createDirector();
  await b.startAgent();
  const lies: [Manifest, Director][] = [
    [current("forged"), stranger],
    [current("cross", { audience: GLOBEX }), b.director],
    [current("expired", { notAfter: (Date.now() - 600_000) as never }), b.director],
  ];

  for (const [manifest, director] of lies) {
    const { id, attempt } = manifest;
    b.server.command({ type: "job_offer", job: id, attempt, envelope: director.seal(manifest) });
  }
  const refusals = () =>
    b.server.events.flatMap((event) => (event.type === "job_rejected" ? [event.code] : []));
  await b.server.until(() => refusals().length === lies.length, "every lie is answered");

  assert.deepEqual(refusals(), ["signature", "wrong_install", "expired"]);
  assert.deepEqual(b.starts, []);
});

test("a running job that is cancelled is stopped and ends as cancelled", async (t) => {
  const b = await bench(t, async ({ say, terminated }) => {
    say("working\n");
    await new Promise<void>((resolve) => terminated.addEventListener("abort", () => resolve()));
    return 1;
  });
  const manifest = current("apply");
  await b.startAgent();
  offer(b, manifest);
  await b.server.until(() => b.server.log(manifest.id) !== "", "it runs");

  b.server.command(b.director.cancel(manifest.id, nowish()));
  await b.server.until(() => endOf(b, manifest) !== undefined, "the job has ended");

  const end = endOf(b, manifest);
  assert.ok(end?.type === "job_ended");
  assert.deepEqual(end.outcome, { kind: "cancelled" });
});

/** Jobs of these tests live in the machine's own time. */
const nowish = () => ({ issuedAt: Date.now(), notAfter: Date.now() + 60_000 });

test("a stop the runtime does not carry out is retried until the job is gone", async (t) => {
  const b = await bench(t, async ({ say, terminated }) => {
    say("working\n");
    await new Promise<void>((resolve) => terminated.addEventListener("abort", () => resolve()));
    return 1;
  });
  const manifest = current("apply");
  await b.startAgent();
  offer(b, manifest);
  await b.server.until(() => b.server.log(manifest.id) !== "", "it runs");
  b.failing.stops = 3;

  b.server.command(b.director.cancel(manifest.id, nowish()));
  await b.server.until(() => endOf(b, manifest) !== undefined, "the job has ended");

  const end = endOf(b, manifest);
  assert.ok(end?.type === "job_ended");
  assert.deepEqual(end.outcome, { kind: "cancelled" });
});

test("a job that is over is removed from the runtime, also when that is away at first", async (t) => {
  const b = await bench(t, async () => 0);
  const manifest = current("apply");
  b.failing.removes = 2;
  await b.startAgent();

  offer(b, manifest);
  await b.server.until(() => endOf(b, manifest) !== undefined, "the job has ended");
  for (let turns = 0; b.place.size > 0; turns++) {
    assert.ok(turns < 1_000, "something of it is left");
    await sleep(10);
  }

  assert.ok(b.failing.removes < 0);
});

test("a deployed component's health is looked up and told, and its drift too", async (t) => {
  const drift = { found: true, summary: "1 file differs" };
  const b = await bench(t, async ({ say, spec }) => {
    const { operation } = JSON.parse(spec.files["job.json"] ?? "{}");
    const result = { type: "result", ok: true };
    const status = { ...result, health: "degraded", because: "drifted", drift };
    say(`${JSON.stringify(operation === "status" ? status : result)}\n`);
    return 0;
  });
  await b.startAgent();

  offer(b, current("apply", { statusEveryMs: 60_000 }));
  await b.server.until(
    () => b.server.events.some(({ type }) => type === "health"),
    "health is told",
  );

  const event = b.server.events.find(({ type }) => type === "health");
  assert.ok(event?.type === "health");
  const { component, health, because } = event;
  assert.deepEqual(
    { component, health, because, drift: event.drift },
    { component: "api", health: "degraded", because: "drifted", drift },
  );
});

test("a status whose image is gone from the registry says so", async (t) => {
  const b = await bench(t, async ({ say }) => {
    say(OK);
    // Deployed a moment ago; now somebody cleans the registry.
    b.isHeld.value = false;
    return 0;
  });
  await b.startAgent();

  offer(b, current("apply", { statusEveryMs: 5_000 }));
  await b.server.until(
    () => b.server.events.some(({ type }) => type === "health"),
    "health is told",
  );

  const event = b.server.events.find(({ type }) => type === "health");
  assert.ok(event?.type === "health");
  assert.deepEqual([event.health, event.code], ["unknown", "not_synced"]);
});

test("a journal without room stops nothing for good: what could not be kept is taken again", async (t) => {
  const b = await bench(t, async ({ say }) => {
    say(OK);
    return 0;
  });
  const manifest = current("apply");
  await b.startAgent();
  const isLinked = () => b.server.events.some(({ type }) => type === "inventory");
  await b.server.until(isLinked, "it is linked");

  b.fullDisk.commits = 3;
  offer(b, manifest);
  await b.server.until(() => endOf(b, manifest) !== undefined, "the job has ended");

  assert.equal(b.fullDisk.commits, 0);
  assert.deepEqual(b.starts, [nameOf(manifest)]);
  const accepted = b.server.events.filter(({ type }) => type === "job_accepted");
  assert.equal(accepted.length, 1);
});

test("a job that a lost journal knew is followed, also when the new one has no room at first", async (t) => {
  const b = await bench(t, async () => 0);
  const id = jobId("forgotten");
  const earlier = createFakeRuntime({ place: b.place, programOf: () => async () => 0 });
  await earlier.start({ name: jobName(id, 1), files: {} } as never);

  b.fullDisk.commits = 2;
  await b.startAgent();
  const end = () => b.server.events.find((event) => event.type === "job_ended");
  await b.server.until(() => end() !== undefined, "its end was told");

  assert.equal(b.fullDisk.commits, 0);
  const { job: told, outcome } = end() as { job?: string; outcome?: { kind: string } };
  assert.deepEqual([told, outcome?.kind], [id, "unknown"]);
});

test("what a part of the agent notices is in the journal when it goes on, and reaches the server", async (t) => {
  const b = await bench(t, async () => 0);
  b.fullDisk.commits = 2;
  const said = b.notices.say({ code: "image_changed", because: "an image was changed" });
  await b.startAgent();

  await said;

  assert.equal(b.fullDisk.commits, 0);
  const alarm = () => b.server.events.find(({ type }) => type === "alarm");
  await b.server.until(() => alarm() !== undefined, "the server was told");
  const { code } = alarm() as { code?: string };
  assert.equal(code, "image_changed");
});
