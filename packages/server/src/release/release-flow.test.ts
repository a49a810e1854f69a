import assert from "node:assert/strict";
import { createPublicKey, generateKeyPairSync } from "node:crypto";
import { describe, test } from "node:test";
import {
  cancelJob,
  createRelease,
  getJob,
  getRelease,
  listChannels,
  listJobs,
  setChannel,
} from "@exclave/api";
import {
  canonicalBytes,
  Digest,
  digestOf,
  type Manifest,
  type PluginDescriptor,
} from "@exclave/core";
import { createMemoryStore, readStatement, writeBlobBytes } from "@exclave/oci";
import { z } from "zod";
import { connectAgent } from "../testing/scripted-agent.ts";
import {
  buildAgent,
  builtBy,
  digestNamed,
  PLUGINS,
  pushAndBuild,
  pushIndex,
  release,
  uploadSource,
} from "../testing/scripted-vendor.ts";
import { assertOnRecord, type TestServer, testServer, until } from "../testing/test-server.ts";

const CRM = `app: crm
components:
  - { name: database, type: terraform, source: ./database }
  - name: api
    type: command
    source: ./api
    build: [make]
    environment: { URL: "\${{ components.database.outputs.url }}" }
  - { name: marker, type: command }
`;
const SOURCES = { database: "tf 1", api: "api 1" };

async function operations({ client }: TestServer): Promise<string[]> {
  const { items } = await client.call(listJobs);
  return items
    .map(({ operation, component }) => `${operation} ${component ?? ""}`.trim())
    .toSorted();
}

describe("a release", () => {
  test("builds each component once, is signed, and moves its channel", async (t) => {
    const server = await testServer(t);
    const agent = await buildAgent(server);

    const made = await release(server, CRM, SOURCES, { channel: "stable" });

    assert.equal(made.state, "ready", made.because ?? "");
    assert.equal(made.version, "1");
    assert.deepEqual(await operations(server), [
      "assemble",
      "assemble",
      "build api",
      "build database",
    ]);
    assert.deepEqual(
      made.components.map(({ name, artifact }) => [name, artifact !== null]),
      [
        ["database", true],
        ["api", true],
        ["marker", false],
      ],
    );
    const { items } = await server.client.call(listChannels);
    assert.deepEqual(
      items.map((channel) => [channel.name, channel.release]),
      [["stable", made.id]],
    );
    assert.equal(made.signed, true);
    const assemble = agent.offered.find(({ operation }) => operation === "assemble");
    assert.deepEqual(assemble?.steps[0]?.materials.map(({ name }) => name).toSorted(), [
      "api",
      "database",
      "plugin:command",
      "plugin:terraform",
      "runner",
    ]);
    await assertOnRecord(
      server,
      "release.created",
      "job.created",
      "job.ended",
      "release.ready",
      "channel.moved",
    );
  });

  test("carries a statement of what it is, which the published key verifies", async (t) => {
    const server = await testServer(t);
    const agent = await buildAgent(server);
    const made = await release(server, CRM, SOURCES);
    const pem = await (await fetch(`${server.url}/v1/keys/release`)).text();

    const attach = Attached.parse(agent.offered.at(-1)?.steps[0]?.parameters["attach"]);

    const store = createMemoryStore();
    const repository = `releases/${made.appId}`;
    for (const { mediaType, content } of attach.blobs) {
      await writeBlobBytes(store, repository, mediaType, Buffer.from(content));
    }
    const manifest = Buffer.from(attach.manifest);
    const artifact = await store.writeManifest(repository, manifest, attach.mediaType);
    assert.equal(artifact, attach.digest);
    const check = (key: ReturnType<typeof createPublicKey>) => {
      const spki = key.export({ type: "spki", format: "der" }).toString("base64");
      const role = { keys: [{ keyid: "k", spki, scheme: "ecdsa-p256" as const }], threshold: 1 };
      return readStatement({ store, repository, index: Digest.parse(made.digest), role });
    };
    const found = await check(createPublicKey(pem));
    assert.ok(!("because" in found), JSON.stringify(found));
    const { statement } = found;
    assert.deepEqual([statement.release, statement.number], [made.id, made.number]);
    assert.deepEqual(
      statement.components.map(({ name, artifact: built, configDigest }) => [
        name,
        built?.digest ?? null,
        configDigest,
      ]),
      made.components.map(({ name, artifact: built }) => [name, built, CONFIG_DIGESTS[name]]),
    );
    assert.deepEqual(
      statement.sandboxes.map(({ type, image }) => [type, image.digest]),
      [["local", digestNamed("local")]],
    );
    const stranger = generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey;
    assert.ok("because" in (await check(stranger)));
  });

  const EVIL = digestNamed("evil");
  const LIES: Record<string, [(index: Index) => unknown, RegExp]> = {
    "another artifact for a component": [
      ({ manifests: [first, ...rest], ...index }) => ({
        ...index,
        manifests: [{ ...first, digest: EVIL }, ...rest],
      }),
      /runner is sha256:\w+ in it, and was built as/,
    ],
    "one entry more": [
      ({ manifests, ...index }) => ({
        ...index,
        manifests: [...manifests, { ...manifests[0], digest: EVIL }],
      }),
      /which is no part of the release/,
    ],
    "one entry fewer": [
      ({ manifests, ...index }) => ({ ...index, manifests: manifests.slice(0, -1) }),
      /is missing in it/,
    ],
    "an entry for another repository": [
      ({ manifests: [first, ...rest], ...index }) => {
        const annotations = { ...first?.annotations, "dev.exclave.repository": "exclave/other" };
        return { ...index, manifests: [{ ...first, annotations }, ...rest] };
      },
      /is not called runner of exclave\/runner/,
    ],
    "an annotation of its own": [
      (index) => ({ ...index, annotations: { ...index.annotations, more: "x" } }),
      /says more than a release does/,
    ],
    "two entries swapped": [
      ({ manifests: [first, second, ...rest], ...index }) => ({
        ...index,
        manifests: [second, first, ...rest],
      }),
      /in it, and was built as/,
    ],
  };
  for (const [what, [lie, because]] of Object.entries(LIES)) {
    test(`is not signed when the build agent's index has ${what}`, async (t) => {
      const server = await testServer(t);
      const agent = await buildAgent(server, async (manifest) => {
        if (manifest.operation !== "assemble") return builtBy(manifest);
        const bytes = await readWritten(server, manifest);
        const digest = await pushIndex(server, manifest, canonicalBytes(lie(bytes)));
        const repository = repositoryOf(manifest);
        return { artifacts: [{ type: "artifact", name: "release", repository, digest }] };
      });

      const made = await release(server, CRM, SOURCES, { channel: "stable" });

      assert.equal(made.state, "failed");
      assert.match(made.because ?? "", because);
      assert.ok(!agent.offered.some(isSigning), "nothing signed leaves the server");
      assert.deepEqual((await server.client.call(listChannels)).items, []);
      await assertOnRecord(server, "release.failed");
    });
  }

  test("is not signed when the index that the build agent names is not there", async (t) => {
    const server = await testServer(t);
    const agent = await buildAgent(server, async (manifest) => {
      const built = builtBy(manifest);
      if (manifest.operation !== "assemble") return built;
      const repository = repositoryOf(manifest);
      return { artifacts: [{ type: "artifact", name: "release", repository, digest: EVIL }] };
    });

    const made = await release(server, CRM, SOURCES);

    assert.equal(made.state, "failed");
    assert.match(made.because ?? "", /there is no index sha256:\w+ in releases\/p\w+/);
    assert.ok(!agent.offered.some(isSigning));
  });

  test("asked for first and ready last does not take the channel back", async (t) => {
    const server = await testServer(t);
    const slow: Manifest[] = [];
    const agent = await buildAgent(server, async (manifest) => {
      if (manifest.operation !== "build" || slow.length > 0) return builtBy(manifest);
      slow.push(manifest);
      return undefined;
    });
    const first = await beginRelease(server, { channel: "stable" });
    await until(
      async () => slow.length,
      (count) => count === 1,
      "the first release is being built",
    );
    const second = await release(
      server,
      CRM,
      { database: "tf 2", api: "api 2" },
      { channel: "stable" },
    );

    for (const manifest of slow) await agent.end(manifest, builtBy(manifest));
    await until(
      () => server.client.call(getRelease, { params: { release: first.id } }),
      ({ state }) => state === "ready",
      "the first release is ready",
    );

    const { items } = await server.client.call(listChannels);
    assert.deepEqual(
      items.map((channel) => channel.release),
      [second.id],
    );
    await assertOnRecord(server, "channel.moved", "channel.kept");
  });

  test("is not ready, and moves no channel, before its signature is attached", async (t) => {
    const server = await testServer(t);
    const agent = await buildAgent(server, async (manifest) =>
      isSigning(manifest) ? undefined : builtBy(manifest),
    );
    const { id } = await beginRelease(server, { channel: "stable" });
    const read = () => server.client.call(getRelease, { params: { release: id } });
    await until(
      async () => agent.offered,
      (offered) => offered.some(isSigning),
      "the signature is offered",
    );

    const waiting = await read();
    const signing = agent.offered.find(isSigning);
    assert.ok(signing);
    await agent.end(signing, {
      outcome: { kind: "failed", code: "unavailable", message: "the registry is away" },
    });

    assert.deepEqual([waiting.state, waiting.signed], ["building", false]);
    const over = await until(read, ({ state }) => state !== "building", "the release is over");
    assert.equal(over.state, "failed");
    assert.match(over.because ?? "", /signing the release failed \(unavailable\)/);
    assert.deepEqual((await server.client.call(listChannels)).items, []);
  });

  test("builds only what changed, and only for what a build reads", async (t) => {
    const server = await testServer(t);
    await buildAgent(server);
    await release(server, CRM, SOURCES);
    const before = (await operations(server)).length;

    const same = await release(server, CRM.replace("URL:", "OTHER:"), SOURCES);
    const changed = await release(server, CRM, { ...SOURCES, api: "api 2" });

    assert.deepEqual(
      same.components.map(({ reused }) => reused),
      [true, true, false],
    );
    assert.deepEqual(
      changed.components.map(({ reused }) => reused),
      [true, false, false],
    );
    const after = await operations(server);
    // Two more indexes with a signature each, and one more build.
    assert.equal(after.length - before, 5);
    assert.equal(after.filter((operation) => operation === "build api").length, 2);
  });

  test("fails with the build's own words, and leaves the channel alone", async (t) => {
    const server = await testServer(t);
    await buildAgent(server, async (manifest) =>
      manifest.steps[0]?.component === "api"
        ? { outcome: { kind: "failed", code: "tool", message: "make: no rule" } }
        : builtBy(manifest),
    );

    const made = await release(server, CRM, SOURCES, { channel: "stable" });

    assert.equal(made.state, "failed");
    assert.match(made.because ?? "", /build of api failed \(tool\): make: no rule/);
    assert.deepEqual((await server.client.call(listChannels)).items, []);
    await assert.rejects(
      server.client.call(setChannel, {
        params: { app: "crm", channel: "stable" },
        body: { release: made.id },
      }),
      /release 1 of crm is failed/,
    );
    await assertOnRecord(server, "release.failed");
  });

  test("resumes after a restart of the server", async (t) => {
    const server = await testServer(t);
    const agent = await buildAgent(server, async () => undefined);
    const { id } = await beginRelease(server);
    await until(
      () => server.client.call(listJobs, { query: { state: "running" } }),
      ({ items }) => items.length === 2,
      "both builds run",
    );
    const { memory } = agent;

    const after = await server.restart();
    const onJob = (manifest: Manifest) => pushAndBuild(after, manifest);
    const again = await connectAgent(agent.identity, { onJob }, memory, after.url);
    for (const manifest of agent.offered) await again.end(manifest, builtBy(manifest));

    const made = await until(
      () => after.client.call(getRelease, { params: { release: id } }),
      ({ state }) => state !== "building",
      "the release is over",
    );
    assert.equal(made.state, "ready", made.because ?? "");
    assert.deepEqual(
      again.offered.map(({ operation }) => operation),
      ["assemble", "assemble"],
    );
    await assertOnRecord(after, "release.created", "release.ready");
  });

  test("builds the vendor's own plugin before the components that need it", async (t) => {
    const server = await testServer(t);
    const agent = await buildAgent(server);
    const motd = { ...PLUGINS[0], type: "motd" } as PluginDescriptor;
    const config = `app: crm
plugins:
  - { type: motd, source: ./plugins/motd }
components:
  - { name: banner, type: motd, source: ./banner }
`;

    const sources = { "plugin:motd": "#!/bin/sh", banner: "hello" };
    const made = await release(server, config, sources, { plugins: { motd } });

    assert.equal(made.state, "ready", made.because ?? "");
    const [plugin, component] = agent.offered;
    assert.deepEqual(plugin?.steps[0]?.parameters, { repository: `plugins/${plugin?.app}/motd` });
    assert.deepEqual(
      plugin?.steps[0]?.materials.map(({ name }) => name),
      ["base"],
    );
    assert.equal(component?.steps[0]?.plugin.repository, `plugins/${plugin?.app}/motd`);
  });

  test("tells every mistake in the file at once, with its place", async (t) => {
    const server = await testServer(t);
    await buildAgent(server);
    const config =
      "app: crm\ncomponents:\n  - { name: api, type: comand }\n  - { name: api, typ: command }\n";

    const refused = server.client.call(createRelease, { body: { config, sources: {} } });

    await assert.rejects(
      refused,
      (failure: { code: string; details: { problems: { line: number }[] } }) => {
        assert.equal(failure.code, "invalid");
        assert.ok(failure.details.problems.length >= 2, JSON.stringify(failure.details));
        assert.ok(failure.details.problems.every(({ line }) => line >= 3));
        return true;
      },
    );
  });

  test("needs its sources uploaded and the build agent's images", async (t) => {
    const server = await testServer(t);
    const body = { config: CRM, sources: {} };
    await assert.rejects(
      server.client.call(createRelease, { body }),
      /has not published the runner/,
    );
    await buildAgent(server);

    await assert.rejects(
      server.client.call(createRelease, { body }),
      /the source of database was not uploaded/,
    );
  });

  test("keeps versions apart", async (t) => {
    const server = await testServer(t);
    await buildAgent(server);
    await release(server, CRM, SOURCES, { version: "1.0" });

    await assert.rejects(
      release(server, CRM, SOURCES, { version: "1.0" }),
      /there is a release 1.0/,
    );
  });

  test("a build cancelled before anybody heard of it is over at once", async (t) => {
    const server = await testServer(t);
    const agent = await buildAgent(server);
    await agent.disconnect();
    const { id } = await beginRelease(server);
    const jobs = await until(
      () => server.client.call(listJobs),
      ({ items }) => items.length === 2,
      "jobs",
    );

    const [first] = jobs.items;
    const cancelled = await server.client.call(cancelJob, {
      params: { job: first?.id ?? "" },
      body: {},
    });

    assert.equal(cancelled.state, "cancelled");
    const made = await until(
      () => server.client.call(getRelease, { params: { release: id } }),
      ({ state }) => state === "failed",
      "the release fails",
    );
    assert.match(made.because ?? "", /cancelled/);
    await assert.rejects(
      server.client.call(cancelJob, { params: { job: first?.id ?? "" }, body: {} }),
      /has ended already/,
    );
    assert.equal(
      (await server.client.call(getJob, { params: { job: first?.id ?? "" } })).failure?.code,
      "cancelled",
    );
  });
});

const Attached = z.object({
  digest: Digest,
  mediaType: z.string(),
  manifest: z.string(),
  blobs: z.array(z.object({ mediaType: z.string(), content: z.string() })),
});

function isSigning({ steps }: Manifest): boolean {
  return steps[0]?.parameters["attach"] !== undefined;
}

async function beginRelease(server: TestServer, more: { channel?: string } = {}) {
  const sources = {
    database: await uploadSource(server, SOURCES.database),
    api: await uploadSource(server, SOURCES.api),
  };
  return server.client.call(createRelease, { body: { config: CRM, sources, ...more } });
}

/** Of what each component says beside the keys that every component has. */
const CONFIG_DIGESTS: Record<string, Digest> = {
  database: digestOf({}),
  api: digestOf({
    build: ["make"],
    environment: { URL: "${{ components.database.outputs.url }}" },
  }),
  marker: digestOf({}),
};

function repositoryOf({ steps }: Manifest): string {
  return String(steps[0]?.parameters["repository"]);
}

interface Index {
  readonly manifests: readonly { readonly annotations: Record<string, string> }[];
  readonly annotations: Record<string, string>;
}

/** The index that the scripted agent pushed for this manifest. */
async function readWritten(server: TestServer, manifest: Manifest): Promise<Index> {
  const digest = await pushIndex(server, manifest);
  const { bytes } = await server.server.context.vendorContent.readManifest(
    repositoryOf(manifest),
    digest,
  );
  return JSON.parse(Buffer.from(bytes).toString());
}
