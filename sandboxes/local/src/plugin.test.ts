import assert from "node:assert/strict";
import { createPrivateKey, createPublicKey } from "node:crypto";
import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { Failure, identifyProcess } from "@exclave/plugin-sdk";
import { isThere } from "./files.ts";
import { type Home, installHome } from "./home.ts";
import { runningProcess } from "./process-record.ts";
import { childRecord, stopInstall, supervisorRecord } from "./stop-install.ts";
import { eventually, STAND_INS, sandboxUnderTest } from "./testing/stand-ins.ts";

describe("setting up a local install", () => {
  test("makes a private home with registry, keys, contract and a joined agent", async (t) => {
    const { home, run } = await sandboxUnderTest(t);

    const { outputs } = await run("apply");

    assert.equal((await stat(home.directory)).mode & 0o777, 0o700);
    const contract = JSON.parse(await readFile(home.contract, "utf8"));
    assert.deepEqual(outputs, { contract });
    assert.deepEqual(contract.install, { id: "iacmeaaaaaaaaaaaa", name: "acme" });
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

  test("done again on request makes the agent join anew and keeps everything else", async (t) => {
    const { home, run } = await sandboxUnderTest(t);
    await run("apply");
    const before = await running(home);
    const contract = await readFile(home.contract, "utf8");
    await writeFile(join(home.state, "data"), "kept");

    await run("apply", { parameters: { joinString: "exclave-join-v1.anew", rejoin: true } });

    const after = await running(home);
    assert.equal(after.supervisor, before.supervisor);
    assert.notEqual(after.agent, before.agent);
    assert.match(await readFile(home.agentIdentity, "utf8"), /anew/);
    assert.equal(await readFile(home.contract, "utf8"), contract);
    assert.equal(await readFile(join(home.state, "data"), "utf8"), "kept");
  });

  test("done again replaces a key of the registry that is gone or damaged, with its other half", async (t) => {
    const { home, run } = await sandboxUnderTest(t);
    await run("apply");

    for (const damage of [
      () => rm(home.tokenKey),
      () => writeFile(home.tokenKey, "no key"),
      () => rm(home.tokenPublicKey),
    ]) {
      await damage();
      await run("apply");
      const key = createPrivateKey(await readFile(home.tokenKey, "utf8"));
      const derived = createPublicKey(key).export({ type: "spki", format: "pem" });
      assert.equal(await readFile(home.tokenPublicKey, "utf8"), derived);
    }
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
      failure("timeout", /did not come up.*agent said: the join string was used before/),
    );
  });

  test("can be retried with another join string after the agent could not join", async (t) => {
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

    const later = { install: "acme", installId: "iacmebbbbbbbbbbbb" };
    await assert.rejects(run("apply", later), failure("conflict", /home of install acme \(iacmea/));
    assert.ok(await isThere(home.contract), "and leaves it as it was");
  });

  test("gives an install without a directory a home by its name, beside what has the name already", async (t) => {
    const { home, run } = await sandboxUnderTest(t);
    const config = { installs: join(home.directory, "..") };
    await run("apply", { config });
    const later = { install: "acme", installId: "iacmebbbbbbbbbbbb", config };
    const laterHome = installHome(`${home.directory}-${later.installId}`);
    t.after(() => stopInstall({ home: laterHome, log: () => undefined, graceMs: 500 }));
    const before = await running(home);

    await run("apply", later);
    await run("apply", later);

    assert.ok(await isThere(home.contract), "the first one is found by its name");
    assert.deepEqual(await running(home), before, "and goes on as it was");
    const contract = JSON.parse(await readFile(laterHome.contract, "utf8"));
    assert.deepEqual(contract.install, { id: later.installId, name: "acme" });
    assert.equal((await run("status", later)).status?.health, "healthy");

    await run("destroy", later);
    assert.ok(!(await isThere(laterHome.directory)));
    assert.ok(await isThere(home.contract));
  });

  test("says what it seeded and that debug commands are allowed, which the customer may change", async (t) => {
    const { home, run } = await sandboxUnderTest(t);
    await run("apply");
    const contract = JSON.parse(await readFile(home.contract, "utf8"));
    assert.deepEqual(contract.debug, { exec: true });
    assert.equal(contract.runner.digest, `sha256:${"a".repeat(64)}`);

    await writeFile(home.contract, JSON.stringify({ ...contract, debug: { exec: false } }));
    await run("apply");

    assert.deepEqual(JSON.parse(await readFile(home.contract, "utf8")).debug, { exec: false });
  });

  test("names the program that the image lacks", async (t) => {
    const { run, programs } = await sandboxUnderTest(t);
    await rm(join(programs, "keeper.mjs"));

    await assert.rejects(run("apply"), failure("plugin", /keeper\.mjs/));
  });
});

describe("taking a local install down", () => {
  test("leaves the home of another install alone: nothing of this one is there", async (t) => {
    const { run } = await sandboxUnderTest(t);
    await run("apply");

    const { logs } = await run("destroy", { installId: "iacmebbbbbbbbbbbb" });

    assert.match(logs.join("\n"), /nothing of it is there: .* is the home of install acme/);
    assert.equal((await run("status")).status?.health, "healthy");
    const other = await run("status", { installId: "iacmebbbbbbbbbbbb" });
    assert.equal(other.status?.health, "missing");
  });

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

test("a local install whose agent knows no longer whom to trust is degraded, and says so", async (t) => {
  const { home, run } = await sandboxUnderTest(t);
  await run("apply");
  await rm(home.agentTrust);

  const { status } = await run("status");

  assert.deepEqual(status, {
    health: "degraded",
    because: "the agent has lost its trust document",
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

    // The new supervisor ends what the killed one left and starts its own.
    await eventually("everything is up", async () => {
      const { status } = await run("status");
      return status?.health === "healthy" || undefined;
    });
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
    assert.equal(identifyProcess(pid), undefined, `${name} still runs`);
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
