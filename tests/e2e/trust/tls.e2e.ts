// The whole line over TLS: server, build agent, setup agent, install agent, jobs and command line, each
// a process of its own, and nothing vouches for the server but the authority it made itself.

import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { existsSync, readFileSync, statSync } from "node:fs";
import { get } from "node:https";
import { join } from "node:path";
import { test } from "node:test";
import type { TLSSocket } from "node:tls";
import type { AgentView } from "@exclave/api";
import { caFingerprint } from "@exclave/machine";
import { createWorld, until, untilHealthy } from "../testing/harness.ts";
import { writeShop } from "../testing/shop-app.ts";

test("an install is created, deployed, updated and destroyed over TLS 1.3", async (t) => {
  const world = await createWorld(t);
  await world.up("--tls");
  const app = writeShop(world);
  const caFile = join(world.home, "server/keys/ca.crt");
  const { server } = await world.json<{ server: string }>("context", "show");

  await t.test("the server speaks TLS 1.3 with a certificate of its own authority", async () => {
    assert.match(server, /^https:\/\/127\.0\.0\.1:/);
    assert.equal(statSync(join(world.home, "server/keys/ca.pem")).mode & 0o777, 0o600);
    assert.equal(await protocolOf(server, readFileSync(caFile, "utf8")), "TLSv1.3");
    await assert.rejects(protocolOf(server, undefined), /certificate/);
  });

  await t.test("a release is built, an install made and deployed", async () => {
    await world.exclave("release", app, "--channel", "stable", "--wait");
    const create = ["install", "create", "acme", "--app", "shop", "--input", "title=Acme"];
    await world.exclave(...create, "--wait");
    await untilHealthy(world, "acme");

    const identity = readIdentity(join(world.home, "installs/acme"));
    assert.match(identity.serverUrl, /^https:/);
    assert.equal(identity.serverCa, readFileSync(caFile, "utf8"));
  });

  await t.test("the next release is deployed, and a debug command runs", async () => {
    writeShop(world, { colour: "green" });
    await world.exclave("release", app, "--channel", "stable", "--wait");
    await until("the new page is there", async () => {
      const logged = await world.exclave("logs", "acme", "web");
      return logged.includes("web is up in green");
    });
    const echo = await world.attempt(
      "exec",
      "acme",
      "web",
      "--",
      "sh",
      "-c",
      "echo inside; exit 7",
    );
    assert.equal(echo.code, 7);
    assert.match(echo.stdout, /inside/);
  });

  await t.test(
    "a command line that was told nothing of the authority is told what to do",
    async () => {
      const args = ["install", "list", "--server", server, "--token-file"];
      const tokenFile = join(world.home, "server/admin-token");
      const home = join(world.place, "elsewhere");
      const stranger = { ...world.env(), EXCLAVE_HOME: home };

      const refused = await world.attemptWith(stranger, ...args, tokenFile);

      assert.notEqual(refused.code, 0);
      assert.match(refused.stderr, /certificate is not by an authority that is trusted here/);
      assert.match(refused.stderr, /--ca-fingerprint/);
    },
  );

  await t.test("and one that was told its fingerprint keeps its certificate", async () => {
    const stranger = { ...world.env(), EXCLAVE_HOME: join(world.place, "elsewhere") };
    const tokenFile = join(world.home, "server/admin-token");
    const add = ["context", "add", "far", "--server", server, "--token-file", tokenFile];
    const fingerprint = caFingerprint(new X509Certificate(readFileSync(caFile)));
    const wrong = `sha256:${"0".repeat(64)}`;

    const refused = await world.attemptWith(stranger, ...add, "--ca-fingerprint", wrong);
    const added = await world.attemptWith(stranger, ...add, "--ca-fingerprint", fingerprint);
    const listed = await world.attemptWith(stranger, "install", "list", "-o", "name");

    assert.match(refused.stderr, /is not the one that was named/);
    assert.equal(added.code, 0, added.stderr);
    assert.deepEqual([listed.code, listed.stdout.trim()], [0, "acme"], listed.stderr);
  });

  await t.test("after a restart everybody comes back over TLS, without being told", async () => {
    await world.down();
    await world.up();
    await untilHealthy(world, "acme");
  });

  await t.test(
    "a revoked agent is sent away, and comes back by a setup with a new key",
    async () => {
      const home = join(world.home, "installs/acme");
      const before = readIdentity(home);

      await world.exclave("agent", "revoke", "acme", "--because", "its disk was copied", "--yes");

      await until("it is gone", async () => {
        const agents = await world.json<AgentView[]>("agent", "list");
        const agent = agents.find(({ install }) => install === "acme");
        return agent?.status === "offline" && typeof agent.revokedAt === "string";
      });
      await world.exclave("install", "setup", "acme", "--wait");
      await untilHealthy(world, "acme");
      const after = readIdentity(home);
      assert.deepEqual([before.keyGeneration, after.keyGeneration], [1, 2]);
      assert.notEqual(after.identityKey, before.identityKey);
    },
  );

  await t.test("an install is destroyed, and nothing of it is left", async () => {
    assert.ok(existsSync(join(world.home, "installs/acme/agent")));
    await world.exclave("install", "destroy", "acme", "--yes", "--wait");
    assert.equal(existsSync(join(world.home, "installs/acme/agent")), false);
  });
});

interface KeptIdentity {
  readonly serverUrl: string;
  readonly serverCa?: string;
  readonly keyGeneration: number;
  readonly identityKey: string;
}

function readIdentity(home: string): KeptIdentity {
  return JSON.parse(readFileSync(join(home, "agent/identity.json"), "utf8"));
}

function protocolOf(url: string, ca: string | undefined): Promise<string | null> {
  return new Promise((resolve, reject) => {
    get(`${url}/healthz`, { agent: false, ...(ca && { ca }) }, (response) => {
      response.resume();
      resolve((response.socket as TLSSocket).getProtocol());
    }).on("error", reject);
  });
}
