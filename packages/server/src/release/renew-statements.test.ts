import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { getRelease, listAudit, renewTrust, rotateKey } from "@exclave/api";
import { digestOf, Instant, JobId, type Manifest } from "@exclave/core";
import { buildAgent, builtBy, release } from "../testing/scripted-vendor.ts";
import { type TestServer, testServer, until } from "../testing/test-server.ts";
import { planStatement, renewStatements, type StatementFacts } from "./renew-statements.ts";

const APP = `app: crm
components:
  - { name: api, type: command, source: ./api }
`;

function isSigning({ steps }: Manifest): boolean {
  return steps[0]?.parameters["attach"] !== undefined;
}

const renew = ({ client }: TestServer) => client.call(renewTrust, { body: {} });

const rotate = ({ client }: TestServer, revoke: boolean) =>
  client.call(rotateKey, { params: { role: "release" }, body: { revoke } });

async function statedAgain({ client }: TestServer): Promise<number> {
  const { items } = await client.call(listAudit, { query: { newest: "true" } });
  return items.filter(({ action }) => action === "release.stated_again").length;
}

describe("after a release key was revoked", () => {
  test("every ready release is stated again with the new key, in the same words", async (t) => {
    const server = await testServer(t);
    const agent = await buildAgent(server);
    const made = await release(server, APP, { api: "1" });
    await release(server, APP, { api: "2" });
    const before = agent.offered.filter(isSigning);

    await rotate(server, false);
    await release(server, APP, { api: "3" });
    assert.equal(await statedAgain(server), 0);
    await rotate(server, true);
    await until(
      () => statedAgain(server),
      (count) => count === 3,
      "three releases are stated again",
    );

    const after = agent.offered.filter(isSigning).slice(before.length + 1);
    assert.equal(after.length, 3);
    const again = after.find((manifest) => manifest.release === made.id);
    const first = before.find((manifest) => manifest.release === made.id);
    assert.deepEqual(payloadOf(again), payloadOf(first));
    assert.notDeepEqual(again?.steps[0]?.parameters, first?.steps[0]?.parameters);
    const row = await server.server.context.store.read.releases.get(made.id);
    assert.deepEqual(
      row?.signedBy,
      server.server.context.trust.current().document.roles.release.keyids,
    );
    const view = await server.client.call(getRelease, { params: { release: made.id } });
    assert.deepEqual([view.state, view.signed], ["ready", true]);
  });

  test("what was found once is not looked for again, however many releases there are", async (t) => {
    const server = await testServer(t);
    await buildAgent(server);
    for (const source of ["1", "2", "3"]) await release(server, APP, { api: source });
    await rotate(server, true);
    await until(
      () => statedAgain(server),
      (count) => count === 3,
      "three releases are stated again",
    );
    const { store, readApp } = server.server.context;
    const read = store.read as { releases: typeof store.read.releases };
    const releases = read.releases;
    let reads = 0;
    const counted = <Value>(value: Promise<Value>) => {
      reads++;
      return value;
    };
    read.releases = {
      ...releases,
      list: (page) => counted(releases.list(page)),
      get: (id) => counted(releases.get(id)),
    };

    await renewStatements(server.server.context, readApp);
    assert.equal(reads, 0, "nothing is to be stated again");
    await renew(server);
    await renewStatements(server.server.context, readApp);
    assert.equal(reads, 0, "the release keys are the same");
    await rotate(server, true);
    await until(
      () => statedAgain(server),
      (count) => count === 6,
      "all three once more",
    );

    assert.deepEqual(await store.read.restatements.all(), []);
  });

  test("a release whose key is revoked while it is built is stated again when it is ready", async (t) => {
    const server = await testServer(t);
    let isHeld = true;
    const go = Promise.withResolvers<void>();
    const agent = await buildAgent(server, async (manifest) => {
      if (isHeld && isSigning(manifest)) await go.promise;
      return builtBy(manifest);
    });
    const made = release(server, APP, { api: "1" });
    await until(
      async () => agent.offered.filter(isSigning).length,
      (count) => count === 1,
      "its statement is signed and on its way",
    );

    await rotate(server, true);
    isHeld = false;
    go.resolve();
    await made;

    await until(
      () => statedAgain(server),
      (count) => count === 1,
      "it is stated again",
    );
  });

  test("a build agent that fails is asked again later, not at once", async (t) => {
    const server = await testServer(t);
    let isAway = false;
    const agent = await buildAgent(server, async (manifest) =>
      isAway
        ? { outcome: { kind: "failed", code: "unavailable", message: "away" } }
        : builtBy(manifest),
    );
    const made = await release(server, APP, { api: "1" });
    isAway = true;
    const offered = agent.offered.length;

    await rotate(server, true);
    await until(
      async () => agent.offered.length,
      (count) => count === offered + 1,
      "it is asked once",
    );

    const view = await server.client.call(getRelease, { params: { release: made.id } });
    assert.equal(view.state, "ready");
    assert.equal(await statedAgain(server), 0);
  });
});

/** What was signed, out of the bundle that travels to the build agent. */
function payloadOf(manifest: Manifest | undefined): unknown {
  const attach = manifest?.steps[0]?.parameters["attach"] as {
    blobs: { content: string }[];
  };
  const bundle = attach.blobs
    .map(({ content }) => JSON.parse(content) as { dsseEnvelope?: { payload: string } })
    .find(({ dsseEnvelope }) => dsseEnvelope);
  assert.ok(bundle?.dsseEnvelope);
  return JSON.parse(Buffer.from(bundle.dsseEnvelope.payload, "base64").toString());
}

describe("what a ready release's statement needs", () => {
  const buildKey = digestOf("this round");
  const now = Instant.parse(1_000_000);
  const facts: StatementFacts = {
    keyids: ["new", "kept"],
    threshold: 1,
    firstKeyids: ["first"],
    buildKey,
    isAttached: false,
    job: undefined,
    now,
  };
  const job = (key = buildKey, endedAt: number | null = null) => ({
    id: JobId.parse("jaaaaaaaaaaaaaaaa"),
    purpose: { kind: "assemble" as const, buildKey: key },
    failure: null,
    endedAt: endedAt === null ? null : Instant.parse(endedAt),
  });
  const old = { signedBy: ["old"], unsignedBecause: null };
  const CASES: [string, Parameters<typeof planStatement>[0], Partial<StatementFacts>, string][] = [
    ["a key that still counts", { ...old, signedBy: ["kept"] }, {}, "counts"],
    ["two of which one counts", { ...old, signedBy: ["old", "kept"] }, { threshold: 2 }, "sign"],
    ["a revoked key", old, {}, "sign"],
    ["nobody knows who signed, before", { ...old, signedBy: null }, {}, "sign"],
    ["the first key, still listed", { ...old, signedBy: null }, { keyids: ["first"] }, "counts"],
    ["it must not be signed", { ...old, unsignedBecause: "no index" }, {}, "counts"],
    ["its job is under way", old, { job: job() }, "busy"],
    ["a job of an earlier round", old, { job: job(digestOf("earlier"), 1) }, "sign"],
    ["its job failed just now", old, { job: job(buildKey, 999_999) }, "later"],
    ["its job failed a while ago", old, { job: job(buildKey, 1) }, "sign"],
    ["its job is done", old, { job: job(buildKey, 1), isAttached: true }, "attached"],
  ];
  for (const [what, signed, more, expected] of CASES) {
    test(`${what}: ${expected}`, () => {
      assert.equal(planStatement(signed, { ...facts, ...more }).kind, expected);
    });
  }
});
