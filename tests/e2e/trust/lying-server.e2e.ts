// The server is not a root of trust. Here another one takes its place and offers forged, altered,
// unsigned, replayed, expired and foreign manifests. Nothing runs, and each refusal is on record.

import assert from "node:assert/strict";
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
} from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  digestOf,
  idFromBytes,
  MANIFEST_PAYLOAD_TYPE,
  Manifest,
  manifestBytes,
  signEnvelope,
} from "@exclave/core";
import { until } from "../testing/harness.ts";
import { createShopWorld } from "../testing/shop-app.ts";
import { type Lie, startLyingServer } from "./testing/lying-server.ts";
import { untilOnRecord } from "./testing/refusals.ts";
import { seenRecord } from "./testing/stolen-record.ts";

test("a server that lies gets nothing to run, and every refusal is on record", async (t) => {
  const world = await createShopWorld(t);
  const jobs = await world.jobs("--install", "acme");
  const applied = jobs.find(
    ({ operation, component }) => operation === "apply" && component === "web",
  );
  assert.ok(applied);
  const { url } = JSON.parse(readFileSync(join(world.home, "run/up.json"), "utf8")) as {
    url: string;
  };
  const identity = JSON.parse(
    readFileSync(join(world.home, "installs/acme/agent/identity.json"), "utf8"),
  ) as {
    audience: string;
    app: string;
  };
  // The lies are as good as lies can get: some are signed with the real key.
  const keysAt = join(world.home, "server/keys");
  const directorFile = readdirSync(keysAt).find((name) => name.startsWith("director")) ?? "";
  const realKey = createPrivateKey(readFileSync(join(keysAt, directorFile)));
  const otherKey = generateKeyPairSync("ed25519").privateKey;
  const der = createPublicKey(realKey).export({ format: "der", type: "spki" });
  const keyid = createHash("sha256").update(der).digest("hex");
  const pwned = join(world.place, "pwned");
  const runner = readdirSync(join(world.home, "installs/acme/runtime/images")).find((name) =>
    name.includes("sha256"),
  );
  const image = `sha256:${(runner ?? "").replace(/^sha256[:-]/, "")}`;

  await killServerSide();
  const record = seenRecord(join(world.home, "installs/acme"));
  const liar = await startLyingServer(Number(new URL(url).port), { record });
  t.after(() => liar.close());
  const before = new Set(readdirSync(join(world.home, "installs/acme/runtime/jobs")));
  const now = Date.now();

  const lies: Lie[] = [
    lie("forged", otherKey, keyid, {}),
    lie("unsigned", otherKey, "nobody", {}),
    altered(),
    lie("expired", realKey, keyid, { notBefore: now - 7_200_000, notAfter: now - 3_600_000 }),
    lie("not yet valid", realKey, keyid, { notBefore: now + 3_600_000, notAfter: now + 7_200_000 }),
    lie("for another install", realKey, keyid, { audience: "iglobexaaaaaaaaaa" }),
    lie("an old number", realKey, keyid, { issueNo: 1 }),
    lie("an attempt that ran before", realKey, keyid, { id: applied.id, attempt: applied.attempt }),
    lie("inputs changed", realKey, keyid, { inputs: { title: "other" } }),
  ];
  const expected: Record<string, string> = {
    forged: "signature",
    unsigned: "signature",
    altered: "signature",
    expired: "expired",
    "not yet valid": "expired",
    "for another install": "wrong_install",
    "an old number": "replayed",
    "an attempt that ran before": "replayed",
    "inputs changed": "invalid",
  };

  liar.tell(lies);
  const refusals = () =>
    liar.events.filter((event) => event.type === "job_rejected" || event.type === "alarm");
  await until("every lie is refused", () => refusals().length >= lies.length);

  await t.test("each is refused for what is wrong with it", () => {
    const rejected = liar.events.flatMap((event) => (event.type === "job_rejected" ? [event] : []));
    for (const { name, job } of lies) {
      const codes = rejected.filter((event) => event.job === job).map(({ code }) => code);
      assert.ok(
        codes.includes(expected[name] as never),
        `${name}: ${codes.join(", ") || "no refusal"}`,
      );
    }
  });

  await t.test("nothing ran", () => {
    assert.ok(!existsSync(pwned));
    const after = readdirSync(join(world.home, "installs/acme/runtime/jobs")).filter(
      (name) => !before.has(name),
    );
    assert.deepEqual(
      after.filter((name) => lies.some(({ job }) => name.includes(job))),
      [],
    );
  });

  await t.test(
    "when the real server is back, the refusals are on its record, and work goes on",
    async () => {
      await liar.close();
      await world.up();
      await untilOnRecord(
        world,
        lies.map(({ name }) => expected[name] ?? ""),
      );
      await world.exclave("audit", "verify");
      const echo = await world.attempt("exec", "acme", "web", "--", "echo", "still here");
      assert.match(echo.stdout, /still here/, echo.stderr);
    },
  );

  async function killServerSide(): Promise<void> {
    const programs = [["exclave.js up"], ["server/src/main.ts"], ["agent/src/main.ts"]];
    for (const words of programs) assert.ok(world.kill(...words) > 0, words.join(" "));
    await until("they are gone", () =>
      programs.every((words) => world.pids(...words).length === 0),
    );
  }

  function manifest(changes: Record<string, unknown>): Manifest {
    const inputs = { title: "Acme" };
    return Manifest.parse({
      version: 1,
      id: idFromBytes("j", randomBytes(10)),
      attempt: 1,
      audience: identity.audience,
      issueNo: 1_000_000,
      operation: "exec",
      app: identity.app,
      steps: [
        {
          operation: "exec",
          plugin: { repository: "exclave/plugins/service", digest: image },
          component: "web",
          type: "service",
          config: {},
          parameters: { command: ["touch", pwned] },
          effect: "at-most-once",
        },
      ],
      inputs,
      inputsDigest: digestOf(inputs),
      notBefore: now - 1_000,
      notAfter: now + 3_600_000,
      deadlineMs: 60_000,
      requestedBy: "liar",
      because: "to see what happens",
      ...changes,
    });
  }

  function lie(
    name: string,
    key: KeyObject,
    signedBy: string,
    changes: Record<string, unknown>,
  ): Lie {
    const document = manifest(changes);
    const signer = { keyid: signedBy, sign: (bytes: Uint8Array) => sign(null, bytes, key) };
    const envelope = signEnvelope(MANIFEST_PAYLOAD_TYPE, manifestBytes(document), signer);
    return { name, job: document.id, attempt: document.attempt, envelope };
  }

  function altered(): Lie {
    const honest = lie("altered", realKey, keyid, {});
    const text = Buffer.from(honest.envelope.payload, "base64")
      .toString()
      .replace("60000", "61000");
    return {
      ...honest,
      envelope: { ...honest.envelope, payload: Buffer.from(text).toString("base64") },
    };
  }
});
