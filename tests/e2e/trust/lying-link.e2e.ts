// Another server takes the real one's place, with the director's key and the real record, and says
// what only root or the director may say: trust documents, cancels, access to a registry. Nothing runs,
// nothing stops, nobody goes to a foreign registry, and each refusal is on record.

import assert from "node:assert/strict";
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
} from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { AuditView, JobView } from "@exclave/api";
import {
  CANCEL_PAYLOAD_TYPE,
  Cancel,
  cancelBytes,
  digestOf,
  type Envelope,
  idFromBytes,
  JobId,
  MANIFEST_PAYLOAD_TYPE,
  Manifest,
  manifestBytes,
  parseTrust,
  sha256Hex,
  signEnvelope,
  TRUST_PAYLOAD_TYPE,
  type TrustDocument,
  trustBytes,
} from "@exclave/core";
import { until, type World } from "../testing/harness.ts";
import { createShopWorld } from "../testing/shop-app.ts";
import { type Said, startLyingServer } from "./testing/lying-server.ts";
import { seenRecord } from "./testing/stolen-record.ts";

test("a server that lies about keys, cancels and registries is not believed", async (t) => {
  const world = await createShopWorld(t);
  const home = join(world.home, "installs/acme");
  const { audience, app } = JSON.parse(readFileSync(join(home, "agent/identity.json"), "utf8")) as {
    audience: string;
    app: string;
  };
  const { url } = JSON.parse(readFileSync(join(world.home, "run/up.json"), "utf8")) as {
    url: string;
  };
  const director = keyOf(world, "director");
  const root = keyOf(world, "root");
  const stranger = generateKeyPairSync("ed25519").privateKey;
  const trustFile = join(home, "agent/trust.json");
  const trustBefore = readFileSync(trustFile, "utf8");
  const trust = trustIn(trustBefore);
  const long = await longJob(t, world);
  const thief = await foreignRegistry(t);

  await killServerSide(world);
  const expiresAt = Date.now() + 600_000;
  const liar = await startLyingServer(Number(new URL(url).port), {
    record: seenRecord(home),
    grant: { registryUrl: thief.url, credential: "c", expiresAt },
  });
  t.after(() => liar.close());
  const foreign = syncFrom({ audience, app }, director);
  const byStranger = syncFrom({ audience, app }, stranger);
  const lies: [Said, string][] = [
    [trustOf(forgedTrust(trust, 1, stranger), stranger), "trust_signature"],
    [trustOf(forgedTrust(trust, 1, stranger), director), "trust_signature"],
    [trustOf(forgedTrust(trust, 2, stranger), root), "trust_invalid"],
    [cancelOf(long.job), "cancel_signature"],
    [cancelOf(long.job, signedCancel(stranger, long.job, { audience })), "cancel_signature"],
    [
      cancelOf(long.job, signedCancel(director, long.job, { audience: "iglobexaaaaaaaaaa" })),
      "cancel_wrong_install",
    ],
    [
      cancelOf(long.job, signedCancel(director, { ...long.job, attempt: 9 }, { audience })),
      "cancel_invalid",
    ],
    [
      cancelOf(long.job, signedCancel(director, long.job, { audience, issuedAt: 1, notAfter: 2 })),
      "cancel_expired",
    ],
    // The key of a document that was refused directs nothing.
    [byStranger, "signature"],
    [foreign, "foreign_origin"],
  ];

  liar.say(lies.map(([said]) => said));
  const raised = () =>
    liar.events.flatMap((event) =>
      event.type === "alarm" || event.type === "job_rejected" ? [event.code] : [],
    );
  await until(
    "every lie is refused",
    () => {
      assert.ok(raised().length >= lies.length, JSON.stringify(liar.events));
      return true;
    },
    { limitMs: 60_000 },
  );

  await t.test("each is refused for what is wrong with it", () => {
    assert.deepEqual(raised().toSorted(), lies.map(([, code]) => code).toSorted());
    const ends = liar.events.flatMap((event) =>
      event.type === "job_ended" && event.job === foreign.job ? [event.outcome] : [],
    );
    assert.deepEqual(
      ends.map((outcome) => (outcome.kind === "failed" ? outcome.code : outcome.kind)),
      ["forbidden"],
    );
  });

  await t.test("nothing ran, nothing stopped, and the same keys are trusted", () => {
    const ran = readdirSync(join(home, "runtime/jobs"));
    assert.ok(!ran.some((name) => name.includes(foreign.job) || name.includes(byStranger.job)));
    assert.equal(thief.asked(), 0, "nobody went to the foreign registry");
    assert.ok(long.isRunning(), "the long job runs on");
    assert.equal(readFileSync(trustFile, "utf8"), trustBefore);
  });

  await t.test(
    "when the real server is back, all of it is on record, and work goes on",
    async () => {
      await liar.close();
      await world.up();
      await until("the refusals arrived", async () => {
        const audit = await world.json<AuditView[]>("audit", "list", "--limit", "5000");
        const text = JSON.stringify(audit);
        return lies.every(([, code]) => text.includes(code));
      });
      await world.exclave("audit", "verify");
      await world.attempt("job", "cancel", long.job.id);
      await until("the director's own cancel stops the long job", () => !long.isRunning());
    },
  );
});

function keyOf(world: World, role: string): KeyObject {
  const place = join(world.home, "server/keys");
  const file = readdirSync(place).find((name) => name.startsWith(role)) ?? "";
  return createPrivateKey(readFileSync(join(place, file)));
}

function spkiOf(key: KeyObject): Buffer {
  return createPublicKey(key).export({ format: "der", type: "spki" });
}

function sealed(payloadType: string, payload: Uint8Array, key: KeyObject): Envelope {
  const keyid = sha256Hex(spkiOf(key));
  const signer = { keyid, sign: (bytes: Uint8Array) => sign(null, bytes, key) };
  return signEnvelope(payloadType, payload, signer);
}

function trustIn(text: string): TrustDocument {
  const { envelope } = JSON.parse(text) as { envelope: Envelope };
  const document = parseTrust(Buffer.from(envelope.payload, "base64"));
  assert.ok(!("because" in document));
  return document;
}

/** Makes that key the director's. */
function forgedTrust(trust: TrustDocument, step: number, key: KeyObject): TrustDocument {
  const keyid = sha256Hex(spkiOf(key));
  const made = { spki: spkiOf(key).toString("base64"), scheme: "ed25519" as const };
  const { director: _, ...roles } = trust.roles;
  return {
    ...trust,
    version: trust.version + step,
    keys: { ...trust.keys, [keyid]: made },
    roles: { ...roles, director: { keyids: [keyid], threshold: 1 } },
  };
}

function trustOf(document: TrustDocument, key: KeyObject): Said {
  return { type: "trust", envelope: sealed(TRUST_PAYLOAD_TYPE, trustBytes(document), key) };
}

type Attempt = Pick<JobView, "id" | "attempt">;

function cancelOf({ id, attempt }: Attempt, envelope?: Envelope): Said {
  return { type: "job_cancel", job: JobId.parse(id), attempt, ...(envelope && { envelope }) };
}

function signedCancel(
  key: KeyObject,
  { id: job, attempt }: Attempt,
  changes: Readonly<Record<string, unknown>>,
): Envelope {
  const now = Date.now();
  const cancel = Cancel.parse({
    version: 1,
    job,
    attempt,
    graceMs: 0,
    issuedAt: now,
    notAfter: now + 600_000,
    requestedBy: "liar",
    because: "to see what happens",
    ...changes,
  });
  return sealed(CANCEL_PAYLOAD_TYPE, cancelBytes(cancel), key);
}

let issueNo = 1_000_000;

function syncFrom(
  { audience, app }: { readonly audience: string; readonly app: string },
  key: KeyObject,
) {
  issueNo += 1;
  const id = idFromBytes("j", randomBytes(10));
  const manifest = Manifest.parse({
    version: 1,
    id,
    attempt: 1,
    audience,
    issueNo,
    operation: "sync",
    app,
    steps: [
      {
        operation: "sync",
        plugin: { repository: "exclave/runner", digest: digestOf("runner") },
        config: {},
        parameters: {},
        effect: "idempotent",
      },
    ],
    inputs: {},
    inputsDigest: digestOf({}),
    notBefore: Date.now() - 1_000,
    notAfter: Date.now() + 3_600_000,
    deadlineMs: 60_000,
    requestedBy: "liar",
    because: "to see what happens",
  });
  const envelope = sealed(MANIFEST_PAYLOAD_TYPE, manifestBytes(manifest), key);
  return { type: "job_offer" as const, job: manifest.id, attempt: 1, envelope };
}

/** A job that runs until somebody stops it, and whether it does. */
async function longJob(t: TestContext, world: World) {
  const file = join(world.place, "long.pid");
  void world.attempt("exec", "acme", "web", "--", "sh", "-c", `echo $$ > ${file}; exec sleep 1000`);
  await until("a long job runs", () => existsSync(file) && readFileSync(file, "utf8") !== "");
  const pid = Number(readFileSync(file, "utf8"));
  t.after(() => isRunning() && process.kill(pid, "SIGKILL"));
  const jobs = await world.jobs("--install", "acme");
  const job = jobs.find(({ operation, state }) => operation === "exec" && state === "running");
  assert.ok(job, JSON.stringify(jobs));
  return { job, isRunning };

  function isRunning(): boolean {
    return existsSync(`/proc/${pid}`);
  }
}

async function killServerSide(world: World): Promise<void> {
  const programs = [["exclave.js up"], ["server/src/main.ts"], ["agent/src/main.ts"]];
  for (const words of programs) assert.ok(world.kill(...words) > 0, words.join(" "));
  await until("they are gone", () => programs.every((words) => world.pids(...words).length === 0));
}

async function foreignRegistry(t: TestContext) {
  let asked = 0;
  const server = createServer((_, response) => {
    asked += 1;
    response.writeHead(404).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, asked: () => asked };
}
