import assert from "node:assert/strict";
import { utimes } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Digest, Instant, JobId } from "@exclave/core";
import { createRegistryFiles, writeBlobBytes } from "@exclave/oci";
import { emptyComponent } from "../install/empty-component.ts";
import { createMemoryJobLogs } from "../job/memory-job-logs.ts";
import { createMemoryStore } from "../store/memory/memory-store.ts";
import type { InstallRow, ReleaseRow } from "../store/rows.ts";
import { ACME, deployedRow, installRow, jobRow, releaseRow } from "../testing/rows.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { readRetention } from "./read-settings.ts";
import { RELEASES_KEPT_MIN, RETENTION } from "./retention-rules.ts";
import { type Swept, sweep } from "./sweep.ts";

const DAY_MS = 24 * 60 * 60_000;
const NOW = 2_000 * DAY_MS;
const OLD = Instant.parse(NOW - 400 * DAY_MS);
const LATELY = Instant.parse(NOW - DAY_MS);
const ENDED = { status: "succeeded", since: OLD } as const;

test("jobs that ended long ago go with their logs; open and younger ones stay", async (t) => {
  const world = await createWorld(t);
  const aged = jobRow({ id: job(1), state: ENDED, createdAt: OLD, endedAt: OLD, attempt: 2 });
  const open = jobRow({ id: job(2), createdAt: OLD });
  const lately = jobRow({ id: job(3), state: ENDED, createdAt: OLD, endedAt: LATELY });
  await world.put(async (tx) => {
    for (const row of [aged, open, lately]) await tx.jobs.put(row);
  });
  for (const attempt of [1, 2]) await world.logs.append(aged.id, attempt, 0, Buffer.from("log"));
  await world.logs.append(lately.id, 1, 0, Buffer.from("log"));

  const { jobs } = await world.sweep();

  assert.equal(jobs, 1);
  assert.equal(await world.store.read.jobs.get(aged.id), undefined);
  assert.deepEqual(
    [await world.logs.sizeBytes(aged.id, 1), await world.logs.sizeBytes(aged.id, 2)],
    [0, 0],
  );
  assert.ok(await world.store.read.jobs.get(open.id));
  assert.ok(await world.store.read.jobs.get(lately.id));
  assert.equal(await world.logs.sizeBytes(lately.id, 1), 3);
});

test("a sweep that is killed anywhere is finished by the next, and leaves no log behind", async (t) => {
  for (let killedAt = 1; killedAt <= 4; killedAt++) {
    const world = await createWorld(t);
    const rows = Array.from({ length: 60 }, (_, n) =>
      jobRow({ id: job(n), state: ENDED, createdAt: OLD, endedAt: OLD }),
    );
    await world.put(async (tx) => {
      for (const row of rows) await tx.jobs.put(row);
    });
    for (const { id } of rows) await world.logs.append(id, 1, 0, Buffer.from("log"));
    let turns = 0;
    const killed = world.sweep({
      nextTurn: async () => {
        if (++turns === killedAt) throw new Error("killed");
      },
    });
    await assert.rejects(killed, /killed/);
    for (const { id } of rows) {
      const isThere = (await world.store.read.jobs.get(id)) !== undefined;
      if (!isThere) assert.equal(await world.logs.sizeBytes(id, 1), 0, "a log without its job");
    }

    await world.sweep();

    assert.deepEqual((await world.store.read.jobs.list({ limit: 100 })).items, []);
    for (const { id } of rows) assert.equal(await world.logs.sizeBytes(id, 1), 0);
  }
});

test("a release stays as long as a channel, an install or an open job needs it, and the newest stay", async (t) => {
  const world = await createWorld(t);
  const old = await world.releases(8, OLD);
  await world.releases(RELEASES_KEPT_MIN, OLD, 100);
  const [pinned, setUp, floor, deployed, attempted, channel, working, unneeded] = old;
  const install: InstallRow = installRow({
    pinnedRelease: pinned!.id,
    setUpRelease: setUp!.id,
    releaseFloor: { release: floor!.id, number: floor!.number, numberMin: 1 },
  });
  await world.put(async (tx) => {
    await tx.installs.put(install);
    await tx.components.put({
      ...emptyComponent(ACME, "api", "command"),
      deployed: deployedRow({ release: deployed!.id }),
      attempted: deployedRow({ release: attempted!.id }),
    });
    await tx.channels.put({
      app: channel!.app,
      appName: channel!.appName,
      name: "stable",
      release: channel!.id,
      movedAt: OLD,
      askedAt: OLD,
    });
    await tx.jobs.put(jobRow({ id: job(1), install: ACME, release: working!.id }));
  });

  const { releases } = await world.sweep();

  assert.equal(releases, 1);
  assert.equal(await world.store.read.releases.get(unneeded!.id), undefined);
  for (const kept of old.slice(0, -1)) assert.ok(await world.store.read.releases.get(kept.id));
});

test("what somebody asks for while a sweep looks is not taken away under their hands", async (t) => {
  const world = await createWorld(t);
  const [old] = await world.releases(1, OLD);
  await world.releases(RELEASES_KEPT_MIN, OLD, 100);
  await world.put((tx) => tx.installs.put(installRow()));
  let isAsked = false;
  // After the installs were looked at, somebody pins the release.
  const nextTurn = async () => {
    const isLooked = turns.next().value;
    if (!isLooked || isAsked) return;
    isAsked = true;
    await world.put(async (tx) => {
      await tx.installs.put(installRow({ pinnedRelease: old!.id }));
      const entry = { actor: "operator", action: "install.deploy_asked", subject: ACME };
      await tx.audit.append({ at: LATELY, ...entry, details: {} });
    });
  };
  const turns = (function* () {
    for (let n = 0; ; n++) yield n >= 3;
  })();

  const { releases } = await world.sweep({ nextTurn });

  assert.ok(isAsked);
  assert.equal(releases, 0);
  assert.ok(await world.store.read.releases.get(old!.id));
});

test("content of the vendor's registry goes with the last row that names it", async (t) => {
  const world = await createWorld(t);
  const files = createRegistryFiles(world.registry);
  const [needed, superseded] = [await pushed(world.registry), await pushed(world.registry)];
  const [kept, gone] = await world.releases(2, OLD);
  await world.releases(RELEASES_KEPT_MIN, OLD, 100);
  await world.put(async (tx) => {
    await tx.releases.put({ ...kept!, runner: { repository: "apps/api", digest: needed } });
    await tx.releases.put({ ...gone!, runner: { repository: "apps/api", digest: superseded } });
    await tx.installs.put(installRow({ setUpRelease: kept!.id }));
    const image = { name: "command", kind: "plugin", repository: "plugins/command" } as const;
    await tx.images.put({ ...image, digest: DIGEST, descriptor: null, publishedAt: OLD });
  });

  const { manifests } = await world.sweep();

  assert.equal(manifests, 1);
  assert.ok(await files.headManifest("apps/api", needed));
  assert.equal(await files.headManifest("apps/api", superseded), undefined);
});

test("settings are days, or forever, and nothing else", () => {
  const read = (days: string) => readRetention({ EXCLAVE_KEEP_JOBS_DAYS: days });

  assert.deepEqual(readRetention({}), {});
  assert.deepEqual(read("30"), { jobsMs: 30 * DAY_MS });
  assert.deepEqual(read("forever"), { jobsMs: Infinity });
  for (const wrong of ["0", "-1", "x", "1.5"]) assert.throws(() => read(wrong), /number of days/);
});

const DIGEST = Digest.parse(`sha256:${"d".repeat(64)}`);

function job(n: number): JobId {
  const letters = String(n).replaceAll(/\d/g, (digit) => "abcdefghij"[+digit]!);
  return JobId.parse(`j${letters.padStart(16, "k")}`);
}

async function pushed(registry: string): Promise<Digest> {
  const files = createRegistryFiles(registry);
  const bytes = Buffer.from(String(Math.random()));
  const config = await writeBlobBytes(files, "apps/api", "text/plain", bytes);
  const manifest = { schemaVersion: 2, config, layers: [] };
  const type = "application/vnd.oci.image.manifest.v1+json";
  const text = Buffer.from(JSON.stringify(manifest));
  const digest = await files.writeManifest("apps/api", text, type);
  const link = join(registry, "repositories/apps/api/+manifests", digest.replace(":", "-"));
  const then = new Date(Date.now() - 30 * DAY_MS);
  await utimes(link, then, then);
  return digest;
}

async function createWorld(t: TestContext) {
  const store = createMemoryStore();
  const logs = createMemoryJobLogs({ files: new Map() });
  const registry = await temporaryDirectory(t);
  const context = { store, logs, now: () => Instant.parse(NOW) };
  const put: typeof store.transaction = (work) => store.transaction(work);
  return {
    store,
    logs,
    registry,
    put,
    sweep: (options: { nextTurn?: () => Promise<void> } = {}): Promise<Swept> =>
      sweep(context, { settings: RETENTION, registry: { directory: registry }, ...options }),
    async releases(count: number, createdAt: Instant, from = 1): Promise<ReleaseRow[]> {
      const rows = Array.from({ length: count }, (_, n) =>
        releaseRow({ id: `r${from + n}`, number: from + n, version: `${from + n}`, createdAt }),
      );
      await put(async (tx) => {
        const { app: id, appName: name } = rows[0]!;
        await tx.apps.put({ id, name, createdAt: OLD });
        for (const row of rows) await tx.releases.put(row);
      });
      return rows;
    },
  };
}
