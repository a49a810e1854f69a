import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, type TestContext as NodeTest, test } from "node:test";
import { Failure, identifyProcess } from "@exclave/plugin-sdk";
import { type ComponentState, componentState } from "./component-state.ts";
import { decideLock, type LockOptions, withStateLock } from "./state-lock.ts";

const OWNER = { job: "jone", attempt: 1, processes: [] };

describe("decideLock", () => {
  test("a state without an owner is free: the tool's own lock decides", () => {
    assert.deepEqual(decideLock({ owner: undefined, isOwnerRunning: false }), { kind: "free" });
  });

  test("an owner that is gone is named when its lock is broken", () => {
    assert.deepEqual(decideLock({ owner: OWNER, isOwnerRunning: false }), {
      kind: "break",
      because: "job jone, attempt 1, held it and its processes are gone",
    });
  });

  test("an owner that lives keeps its lock", () => {
    assert.equal(decideLock({ owner: OWNER, isOwnerRunning: true }).kind, "held");
  });
});

describe("withStateLock", () => {
  test("lets one in at a time, and the next one after it", async (t) => {
    const { state, options } = await anyState(t);
    const held = Promise.withResolvers<void>();
    const first = withStateLock(options("jone"), () => held.promise);
    await until(async () => (await readdir(state.directory)).includes("lock-owner.json"));

    await assert.rejects(
      withStateLock({ ...options("jtwo"), patienceMs: 0 }, async () => undefined),
      (reason) => reason instanceof Failure && /jone, attempt 1, is still/.test(reason.message),
    );
    held.resolve();
    await first;

    assert.equal(await withStateLock(options("jtwo"), async () => "in"), "in");
  });

  test("waits for an owner that is about to end", async (t) => {
    const { options } = await anyState(t);
    const held = Promise.withResolvers<void>();
    const first = withStateLock(options("jone"), () => held.promise);
    const second = withStateLock({ ...options("jtwo"), patienceMs: 30_000 }, async () => "in");

    held.resolve();
    await first;

    assert.equal(await second, "in");
  });

  test("leaves nothing behind when the work fails", async (t) => {
    const { state, options } = await anyState(t);

    const work = async () => assert.fail("on purpose");
    await assert.rejects(withStateLock(options("jone"), work), /on purpose/);

    assert.deepEqual(await readdir(state.directory), []);
  });

  test("is not fooled by another process that got the number of a dead owner", async (t) => {
    const { state, options, said } = await anyState(t);
    const now = identifyProcess(process.pid);
    const processes = [{ ...now, startTime: "1" }];
    await writeFile(state.ownerFile, JSON.stringify({ ...OWNER, processes }));
    await writeFile(state.lockFile, "{}");

    await withStateLock(options("jtwo"), async () => undefined);

    assert.match(said.join(), /removing the state lock: job jone/);
    assert.deepEqual(await readdir(state.directory), []);
  });

  test("an owner from before a restart of the machine is over", async (t) => {
    const { state, options, said } = await anyState(t);
    const now = identifyProcess(process.pid);
    const processes = [{ ...now, bootId: "an earlier life" }];
    await writeFile(state.ownerFile, JSON.stringify({ ...OWNER, processes }));

    await withStateLock(options("jtwo"), async () => undefined);

    assert.match(said.join(), /removing the state lock/);
  });

  test("the lock lives as long as a program that was started under it", async (t) => {
    const { state, options } = await anyState(t);
    const now = identifyProcess(process.pid);
    const processes = [{ pid: 2 ** 22, startTime: "1" }, now];
    await writeFile(state.ownerFile, JSON.stringify({ ...OWNER, processes }));

    await assert.rejects(
      withStateLock({ ...options("jtwo"), patienceMs: 0 }, async () => undefined),
      /still at work/,
    );
  });

  test("word that was cut off does not lock anybody out", async (t) => {
    const { state, options } = await anyState(t);
    await writeFile(state.ownerFile, '{"job":');

    assert.equal(await withStateLock(options("jtwo"), async () => "in"), "in");
  });
});

interface AnyState {
  readonly state: ComponentState;
  readonly options: (job: string) => LockOptions;
  readonly said: string[];
}

async function anyState(t: NodeTest): Promise<AnyState> {
  const directory = await mkdtemp(join(tmpdir(), "exclave-lock-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const state = componentState(directory);
  const said: string[] = [];
  const log = (message: string) => void said.push(message);
  return { state, said, options: (job) => ({ state, job, attempt: 1, log }) };
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setImmediate(resolve));
}
