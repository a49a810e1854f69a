// kill -9 of the registry and of the client that pushes to it, at random points of 200 pushes. Then:
// all that was acknowledged is there and whole, and whatever else is visible is whole too and was on
// its way when something was killed.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { startRegistry, temporaryPlace } from "./testing/registry-program.ts";

const PUSHER = join(import.meta.dirname, "testing/registry-pusher.ts");
const PUSHES = 200;
const KILLS_MIN = 8;

interface Push {
  readonly repository: string;
  readonly blobs: readonly string[];
  readonly manifest: string;
  readonly tag: string;
}

interface Journal {
  readonly begun: Push[];
  /** `<repository> <digest>` of each acknowledged blob. */
  readonly blobs: Set<string>;
  /** `<repository> <digest> <tag>` of each acknowledged manifest. */
  readonly manifests: Set<string>;
}

test("kill -9 at random points of 200 pushes loses nothing that was acknowledged", async (t) => {
  const place = temporaryPlace(t);
  const journal = join(place, "journal");
  const content = join(place, "content");

  let registry = await startRegistry(t, content);
  const { url } = registry;
  const again = () => startRegistry(t, content, new URL(url).host);
  let client = startClient(t, url, journal);
  let kills = 0;
  for (;;) {
    // Paced by what was begun, not by the clock: a slow machine gets as far between two kills.
    const begunAt = readJournal(journal).begun.length + 2 + Math.floor(Math.random() * 16);
    const isLast = begunAt >= PUSHES;
    while (client.exitCode === null) {
      if (!isLast && readJournal(journal).begun.length >= begunAt) break;
      await sleep(5);
    }
    if (client.exitCode !== null) break;
    await sleep(Math.random() * 30);
    kills++;
    if (kills % 2 === 0) {
      await kill(client);
      client = startClient(t, url, journal);
    } else {
      await kill(registry.child);
      registry = await again();
    }
  }
  assert.equal(client.exitCode, 0);
  await kill(registry.child);
  assert.ok(kills >= KILLS_MIN, `killed ${kills} times`);

  const { begun, blobs, manifests } = readJournal(journal);
  registry = await again();
  t.diagnostic(`${begun.length} pushes, ${kills} kills, ${manifests.size} acknowledged`);
  assert.ok(begun.length >= PUSHES);

  await t.test("what was acknowledged is there and whole", async () => {
    for (const [repository = "", digest] of split(blobs)) {
      assert.equal(await digestAt(`${url}/v2/${repository}/blobs/${digest}`), digest);
    }
    for (const [repository = "", digest, tag] of split(manifests)) {
      assert.equal(await digestAt(`${url}/v2/${repository}/manifests/${digest}`), digest);
      assert.equal(await digestAt(`${url}/v2/${repository}/manifests/${tag}`), digest);
    }
  });

  await t.test("what is visible is whole, and was pushed", async () => {
    for (const { repository, blobs: needed, manifest, tag } of begun) {
      for (const blob of needed) {
        const found = await digestAt(`${url}/v2/${repository}/blobs/${blob}`);
        assert.ok(found === undefined || found === blob);
      }
      const found = await digestAt(`${url}/v2/${repository}/manifests/${tag}`);
      if (found === undefined) continue;
      assert.equal(found, manifest);
      for (const blob of needed) {
        assert.equal(await digestAt(`${url}/v2/${repository}/blobs/${blob}`), blob);
      }
    }
    const pushed = new Set(begun.map(({ repository, tag }) => `${repository} ${tag}`));
    for (const repository of new Set(begun.map((push) => push.repository))) {
      const response = await fetch(`${url}/v2/${repository}/tags/list`);
      const { tags } = (await response.json()) as { tags: string[] };
      for (const tag of tags) assert.ok(pushed.has(`${repository} ${tag}`));
    }
  });

  await t.test("on disk there is nothing half", () => {
    const directory = join(content, "blobs/sha256");
    for (const name of readdirSync(directory)) {
      assert.equal(digestOf(readFileSync(join(directory, name))), `sha256:${name}`);
    }
    const temporary = join(content, "tmp");
    assert.deepEqual(existsSync(temporary) ? readdirSync(temporary) : [], []);
  });
  await kill(registry.child);
});

function startClient(t: TestContext, url: string, journal: string): ChildProcess {
  const args = [PUSHER, url, journal, String(PUSHES)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
  t.after(() => child.kill("SIGKILL"));
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

function readJournal(path: string): Journal {
  // A line that a kill cut off says nothing; every other one is whole.
  const text = existsSync(path) ? readFileSync(path, "utf8") : "";
  const lines = text.split("\n").map((line) => line.split(" "));
  const of = (kind: string, words: number) =>
    lines.filter((line) => line[0] === kind && line.length === words).map(([, ...rest]) => rest);
  return {
    begun: of("begin", 6).map(([repository = "", one = "", two = "", manifest = "", tag = ""]) => {
      return { repository, blobs: [one, two], manifest, tag };
    }),
    blobs: new Set(of("blob", 3).map((words) => words.join(" "))),
    manifests: new Set(of("manifest", 4).map((words) => words.join(" "))),
  };
}

function split(lines: ReadonlySet<string>): string[][] {
  return [...lines].map((line) => line.split(" "));
}

/** The digest of what comes back; undefined for 404. */
async function digestAt(address: string): Promise<string | undefined> {
  const response = await fetch(address);
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (response.status === 404) return undefined;
  assert.equal(response.status, 200);
  return digestOf(bytes);
}

function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}
