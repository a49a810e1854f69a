import assert from "node:assert/strict";
import { createPrivateKey, createPublicKey } from "node:crypto";
import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { Failure, identifyProcess } from "@exclave/plugin-sdk";
import type { Home } from "./home.ts";
import { runningProcess } from "./process-record.ts";
import { childRecord, supervisorRecord } from "./stop-install.ts";
import { eventually, STAND_INS, sandboxUnderTest } from "./testing/stand-ins.ts";

describe("setting up a local install", () => {
  test("makes a private home with registry, keys, contract and a joined agent", async (t) => {
    const { home, run } = await sandboxUnderTest(t);

    const { outputs } = await run("apply");

    assert.equal((await stat(home.directory)).mode & 0o777, 0o700);
    const contract = JSON.parse(await readFile(home.contract, "utf8"));
    assert.deepEqual(outputs, { contract });
    assert.equal(contract.install, "acme");
    assert.deepEqual(contract.runtime, { type: "process", directory: home.runtime });
    const identity = JSON.parse(await readFile(home.agentIdentity, "utf8"));
    assert.deepEqual(identity, { joinedWith: "exclave-join-v1.once" });
    assert.equal((await run("status")).status?.health, "healthy");
  });

  test("makes one key pair for registry tokens; the secret half is private", async (t) => {
    const { home, run } = await sandboxUnderTest(t);
    await run("apply");
    const secret = await readFile(home.tokenKey, "utf8");
    await run("apply");

    assert.equal((await stat(home.tokenKey)).mode & 0o777, 0o600);
    assert.equal(await readFile(home.tokenKey, "utf8"), secret);
    const derived = createPublicKey(createPrivateKey(secret)).export({
      type: "spki",
      format: "pem",
    });
    assert.equal(await readFile(home.tokenPublicKey, "utf8"), derived);
  });

  test("seeds the registry with the runner, once per digest", async (t) => {
    const { home, run } = await sandboxUnderTest(t);
    await run("apply");
    await run("apply");

    const imported = await readFile(join(home.registryContent, "imported"), "utf8");
    assert.equal(
      imported.match(/--repository exclave\/runner --digest sha256:a{64} --tag seed/g)?.length,
      1,
    );
  });

  test("shows the install's programs nothing of who set it up", async (t) => {
    const { home, run } = await sandboxUnderTest(t);

    await run("apply");

    const [start] = await starts(home);
    assert.equal(start?.environment["EXCLAVE_TOKEN"], undefined);
    assert.equal(start?.environment["HOME"], home.directory);
  });

  test("done again changes nothing that runs", async (t) => {
    const { home, run } = await sandboxUnderTest(t);
    await run("apply");
    const before = await running(home);

    await run("apply", { parameters: { joinString: "exclave-join-v1.another" } });

    assert.deepEqual(await running(home), before);
    assert.match(await readFile(home.agentIdentity, "utf8"), /once/);
    assert.ok(!(await readdir(home.directory)).includes("join"));
  });

  test("done again with a new program restarts it and nothing above it", async (t) => {
    const { home, run, bring } = await sandboxUnderTest(t);
    await run("apply");
    const before = await running(home);

    await bring("agent.mjs", `${STAND_INS.AGENT}\n// newer`);
    await run("apply");

    const after = await eventually("a new agent", async () => {
      const now = await running(home);
      return now.agent && now.agent !== before.agent ? now : undefined;
    });
    assert.equal(after.supervisor, before.supervisor);
    assert.match(await readFile(join(home.programs, "agent.mjs"), "utf8"), /newer/);
  });

  test("fails with the agent's own words when it cannot join", async (t) => {
    const { home, run, bring } = await sandboxUnderTest(t, { readyWithinMs: 500 });
    await bring("agent.mjs", STAND_INS.REFUSED_AGENT);
    await assert.rejects(run("apply"), failure("timeout", /did not come up/));
    await eventually("the agent's first try", async () => {
      const said = await readFile(join(home.logs, "agent.log"), "utf8").catch(() => "");
      const { status } = await run("status");
      return (said !== "" && status?.because === "the agent has not joined yet") || undefined;
    });

    await assert.rejects(
      run("apply"),
      failure("timeout", /has not joined yet.*agent said: the join string was used before/),
    );
  });

  test("can be tried again with another join string after the agent could not join", async (t) => {
    const { home, run, bring } = await sandboxUnderTest(t, { readyWithinMs: 500 });
    await bring("agent.mjs", STAND_INS.REFUSED_AGENT);
    await assert.rejects(run("apply"), Failure);

    await bring("agent.mjs", STAND_INS.AGENT);
    await eventually("the second try", async () => {
      try {
        return await run("apply", { parameters: { joinString: "exclave-join-v1.second" } });
      } catch {
        return undefined;
      }
    });

    assert.match(await readFile(home.agentIdentity, "utf8"), /second/);
  });

  test("needs a join string and the runner image", async (t) => {
    const { run } = await sandboxUnderTest(t);

    await assert.rejects(run("apply", { parameters: {} }), failure("invalid", /join string/));
  });

  test("refuses a directory that holds something else, or another install", async (t) => {
    const { home, run } = await sandboxUnderTest(t);
    await mkdir(home.directory);
    await writeFile(join(home.directory, "thesis.txt"), "years of work");

    await assert.rejects(run("apply"), failure("conflict", /holds something else/));
    await assert.rejects(run("destroy"), failure("conflict", /left alone/));
    assert.deepEqual(await readdir(home.directory), ["thesis.txt"]);
  });

  test("refuses the home of another install", async (t) => {
    const { home, run } = await sandboxUnderTest(t);
    await run("apply");

    const config = { directory: home.directory, install: "globex" };
    await assert.rejects(run("apply", { config }), failure("conflict", /home of install acme/));
  });

  test("names the program that the image lacks", async (t) => {
    const { run, programs } = await sandboxUnderTest(t);
    await rm(join(programs, "keeper.mjs"));

    await assert.rejects(run("apply"), failure("plugin", /keeper\.mjs/));
  });
});

describe("taking a local install down", () => {
  test("stops what runs, removes the directory and says so; a second time is fine", async (t) => {
    const { home, run } = await sandboxUnderTest(t);
    await run("apply");
    const before = await running(home);

    const { logs } = await run("destroy");

    assert.ok(logs.some((line) => line.startsWith(`removed ${home.directory}`)));
    await assert.rejects(stat(home.directory), { code: "ENOENT" });
    await assertGone(before);
    assert.equal((await run("status")).status?.health, "missing");
    await run("destroy");
  });

  test("works when the supervisor was killed and left the others behind", async (t) => {
    const { home, run } = await sandboxUnderTest(t);
    await run("apply");
    const before = await running(home);
    process.kill(before.supervisor ?? 0, "SIGKILL");

    await run("destroy");

    await assertGone(before);
  });
});

describe("a local install whose supervisor is gone", () => {
  test("is degraded, and whole again after another setup", async (t) => {
    const { home, run } = await sandboxUnderTest(t);
    await run("apply");
    const { supervisor } = await running(home);
    process.kill(supervisor ?? 0, "SIGKILL");
    await eventually("its end", async () => ((await running(home)).supervisor ? undefined : true));
    assert.equal((await run("status")).status?.because, "the supervisor is not running");

    await run("apply");

    assert.equal((await run("status")).status?.health, "healthy");
  });
});

async function running(home: Home) {
  return {
    supervisor: (await runningProcess(supervisorRecord(home)))?.pid,
    agent: (await runningProcess(childRecord(home, "agent")))?.pid,
    registry: (await runningProcess(childRecord(home, "registry")))?.pid,
  };
}

interface Start {
  readonly pid: number;
  readonly environment: Record<string, string>;
}

async function starts(home: Home): Promise<Start[]> {
  const text = await readFile(join(home.directory, "agent", "starts"), "utf8");
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}

async function assertGone(pids: Record<string, number | undefined>): Promise<void> {
  for (const [name, pid] of Object.entries(pids)) {
    assert.ok(pid, `${name} was not running before`);
    assert.equal(await identifyProcess(pid), undefined, `${name} still runs`);
  }
}

function failure(code: string, message: RegExp): (reason: unknown) => boolean {
  return (reason) => {
    assert.ok(reason instanceof Failure, String(reason));
    assert.equal(reason.code, code, reason.message);
    assert.match(reason.message, message);
    return true;
  };
}
