import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeJoinString, type Grant } from "@exclave/api";
import {
  digestOf,
  evaluateConfig,
  Failure,
  InstallName,
  JobDocument,
  type Manifest,
} from "@exclave/core";
import type { JournalWrite } from "../journal/journal.ts";
import { createMemoryJournal } from "../journal/memory-journal.ts";
import type { RegistryShare } from "../sandbox/own-repository.ts";
import { ACME, DIGEST, job, NOW, recordOf } from "../testing/builders.ts";
import { prepareJob, type Workplace } from "./prepare-job.ts";

const OTHER = digestOf("an artifact");
const RELEASES = [{ repository: "releases/crm", digest: digestOf("a release") }];
const STATEMENT = {
  name: "statement",
  repository: "releases/crm",
  digest: digestOf("a statement"),
};
const WRITES: readonly JournalWrite[] = [
  { kind: "release_floor", install: "acme", number: 1, numberMin: 1, index: digestOf("a release") },
];
const GRANT: Grant = {
  registryUrl: "http://vendor.test",
  credential: "granted",
  expiresAt: NOW + 1,
  sourceUrl: "http://vendor.test/source",
  sourceToken: "source-token",
};

const ALONE: RegistryShare = { repository: "", mountFrom: [] };

function placeWith({
  held = [DIGEST, OTHER],
  isReleased = true,
  install = true,
  share = ALONE,
} = {}): Workplace {
  return {
    journal: createMemoryJournal({ journalId: "j" }),
    evaluate: evaluateConfig,
    gate: {
      async admit(manifest) {
        if (!isReleased) throw new Failure("unreleased", "no verified statement says so");
        const { operation } = manifest;
        return { writes: WRITES, statements: operation === "sync" ? [STATEMENT] : [] };
      },
      statusOf: async (applied) => applied,
    },
    origins: () => ["http://vendor.test"],
    ...(install && {
      own: {
        id: ACME,
        name: "acme",
        sandbox: { kind: "local" },
        registry: {
          url: "http://install.test",
          ...share,
          tokenFor: async (service, subject) => `${service} for ${subject}`,
          token: async (access) =>
            JSON.stringify(access.map(({ name, actions }) => [name, actions])),
        },
        holds: async ({ digest }) => held.includes(digest),
        runner: { pin: async () => {}, restore: async () => false },
      },
    }),
  };
}

async function prepare(manifest: Manifest, place: Workplace, grant?: Grant, joinString?: string) {
  const [step] = manifest.steps;
  assert.ok(step);
  const { name } = recordOf(manifest);
  const released = { releases: RELEASES, ...step };
  const job = { name, manifest, step: released, grant, joinString, now: NOW };
  const { spec, secrets, secretsInMemory, writes } = await prepareJob(job, place);
  const document = JobDocument.parse(JSON.parse(spec.files["job.json"] ?? ""));
  return { spec, secrets, secretsInMemory, document, writes };
}

test("evaluates the configuration in the install, with what the install alone knows", async () => {
  const place = placeWith();
  place.journal.commit([
    {
      kind: "outputs",
      component: "database",
      outputs: [{ name: "url", value: "postgres://secret@db", sensitive: true }],
    },
  ]);
  const config = {
    name: "${{ install.name }}",
    host: "www.${{ inputs.domain }}",
    database: "${{ components.database.outputs.url }}",
    key: "${{ secrets.session }}",
  };
  const manifest = job("apply", {
    step: { config },
    inputs: { domain: "example.com" },
    generatedSecrets: [{ name: "session", bytes: 16, encoding: "hex" }],
  });

  const first = await prepare(manifest, place);
  const second = await prepare(manifest, place);

  const { key, ...rest } = first.document.config;
  assert.deepEqual(rest, {
    name: "acme",
    host: "www.example.com",
    database: "postgres://secret@db",
  });
  assert.match(String(key), /^[0-9a-f]{32}$/);
  assert.equal(second.document.config.key, key, "a secret is made once");
  assert.deepEqual(first.secrets, [key, "postgres://secret@db"]);
  assert.equal(first.spec.stateVolume, "api");
});

test("outputs that are not kept any more fail as lost, and name who gave them out", async () => {
  const config = { url: "${{ components.database.outputs.url }}" };

  await assert.rejects(prepare(job("apply", { step: { config } }), placeWith()), (reason) => {
    assert.ok(reason instanceof Failure && reason.code === "outputs_lost");
    assert.match(reason.message, /what database gave out is not kept here/);
    return true;
  });
});

test("an expression without a value fails with a sentence that names it", async () => {
  const config = { url: "${{ inputs.database }}" };

  await assert.rejects(prepare(job("apply", { step: { config } }), placeWith()), (reason) => {
    assert.ok(reason instanceof Failure && reason.code === "invalid");
    assert.match(reason.message, /inputs\.database/);
    return true;
  });
});

test("prepares nothing that is not in the install's own registry", async () => {
  const artifact = { repository: "apps/crm/api", digest: OTHER };
  const manifest = job("apply", { step: { artifact } });

  for (const held of [[], [DIGEST], [OTHER]]) {
    await assert.rejects(
      prepare(manifest, placeWith({ held })),
      (reason) => reason instanceof Failure && reason.code === "not_synced",
    );
  }
});

test("a destroy needs no registry: it runs from what was unpacked, and says itself what it lacks", async () => {
  const artifact = { repository: "apps/crm/api", digest: OTHER };
  const manifest = job("destroy", { operation: "destroy", step: { artifact } });

  const { spec } = await prepare(manifest, placeWith({ held: [] }));

  assert.equal(spec.image.digest, DIGEST);
});

test("prepares nothing that no verified statement admits, and says what to journal first", async () => {
  for (const operation of ["plan", "apply", "destroy", "status", "logs", "exec", "sync"] as const) {
    const preparing = prepare(
      job(operation, { operation }),
      placeWith({ isReleased: false }),
      GRANT,
    );
    await assert.rejects(preparing, { code: "unreleased" }, operation);
  }
  const { writes } = await prepare(job("apply"), placeWith());
  assert.deepEqual(writes, WRITES);
});

test("a job gets a token for what it reads and nothing else", async () => {
  const artifact = { repository: "apps/crm/api", digest: OTHER };

  const { document, spec } = await prepare(job("apply", { step: { artifact } }), placeWith());

  const access = [
    ["exclave/plugins/command", ["pull"]],
    ["apps/crm/api", ["pull"]],
  ];
  assert.deepEqual(JSON.parse(document.registry?.token ?? ""), access);
  assert.equal(spec.image.registryUrl, "http://install.test");
  assert.equal(document.pushTo, undefined);
  assert.deepEqual(
    spec.environment,
    {},
    "the search path is the image's, and the runtime's behind it",
  );
});

test("a sync reads from the vendor with the server's grant and writes to the install", async () => {
  const api = { name: "api", repository: "apps/crm/api", digest: digestOf("new") };
  const release = { name: "release", ...RELEASES[0], repository: "releases/crm" } as typeof api;
  const manifest = job("sync", {
    operation: "sync",
    step: {
      materials: [release, api],
      config: { raw: "${{ x }}" },
      parameters: { mountFrom: ["exclave/runner", "apps/crm/api"] },
    },
  });

  const { document } = await prepare(manifest, placeWith(), GRANT);

  assert.deepEqual(document.registry, {
    url: "http://vendor.test",
    credential: "granted",
    origins: ["http://vendor.test"],
  });
  assert.equal(document.pushTo?.url, "http://install.test");
  assert.deepEqual(JSON.parse(document.pushTo?.token ?? ""), [
    ["apps/crm/api", ["pull", "push"]],
    ["releases/crm", ["pull", "push"]],
    ["exclave/runner", ["pull"]],
  ]);
  assert.deepEqual(
    document.materials,
    [api, STATEMENT, release],
    "the statement before its release",
  );
  assert.equal(document.pushTo?.repository, "");
  assert.deepEqual(document.parameters.mountFrom, ["exclave/runner", "apps/crm/api"]);
  await assert.rejects(prepare(manifest, placeWith()), /no access/);
});

test("on a shared registry a job finds everything under its install's prefix", async () => {
  const artifact = { repository: "apps/crm/api", digest: OTHER };
  const materials = [{ name: "base", repository: "apps/crm/base", digest: OTHER }];
  const place = placeWith({ share: { repository: "globex", mountFrom: ["acme"] } });

  const { document, spec } = await prepare(job("apply", { step: { artifact, materials } }), place);

  assert.equal(spec.image.repository, "globex/exclave/plugins/command");
  assert.equal(document.artifact?.repository, "globex/apps/crm/api");
  assert.deepEqual(document.materials, [{ ...materials[0], repository: "globex/apps/crm/base" }]);
  assert.deepEqual(JSON.parse(document.registry?.token ?? ""), [
    ["globex/exclave/plugins/command", ["pull"]],
    ["globex/apps/crm/api", ["pull"]],
    ["globex/apps/crm/base", ["pull"]],
  ]);
});

test("a sync to a shared registry writes under the prefix alone, and reads what it may mount", async () => {
  const materials = [{ name: "api", repository: "apps/crm/api", digest: digestOf("new") }];
  const parameters = { mountFrom: ["exclave/runner", "apps/crm/api"] };
  const manifest = job("sync", { operation: "sync", step: { materials, parameters } });
  const place = placeWith({ share: { repository: "globex", mountFrom: ["acme"] } });

  const { document, spec } = await prepare(manifest, place, GRANT);

  assert.equal(spec.image.repository, "globex/exclave/plugins/command");
  const brought = [...materials, STATEMENT];
  assert.deepEqual(document.materials, brought, "the vendor has it by the vendor's name");
  assert.equal(document.pushTo?.repository, "globex");
  assert.deepEqual(JSON.parse(document.pushTo?.token ?? ""), [
    ["globex/apps/crm/api", ["pull", "push"]],
    ["globex/releases/crm", ["pull", "push"]],
    ["acme/apps/crm/api", ["pull"]],
    ["globex/exclave/runner", ["pull"]],
  ]);
  assert.deepEqual(document.parameters.mountFrom, [
    "acme/apps/crm/api",
    "globex/exclave/runner",
    "globex/apps/crm/api",
  ]);
});

test("a build reads its source and pushes where the manifest says, with the grant alone", async () => {
  const place = placeWith({ install: false });
  const artifact = { repository: "sources", digest: OTHER };
  const step = {
    artifact,
    parameters: { repository: "apps/crm/api" },
    config: { a: "${{ inputs.x }}" },
  };
  const manifest = job("build", { operation: "build", audience: "build", step });

  const { document, spec } = await prepare(manifest, place, GRANT);

  const access = {
    url: "http://vendor.test",
    credential: "granted",
    origins: ["http://vendor.test"],
  };
  assert.deepEqual(document.pushTo, { ...access, repository: "apps/crm/api" });
  assert.deepEqual(document.source, {
    url: "http://vendor.test/source",
    token: "source-token",
    digest: OTHER,
  });
  assert.equal(document.artifact, undefined);
  assert.deepEqual(document.config, { a: "${{ inputs.x }}" }, "values are made in installs");
  assert.equal(spec.stateVolume, undefined);
});

test("a setup's join string and what a grant opens never appear in a log", async () => {
  const place = placeWith({ install: false });
  const join = { url: "http://vendor.test", kind: "install", audience: ACME } as const;
  const secret = "a-secret-of-enough-letters";
  const joinString = encodeJoinString({ ...join, secret, trustDigest: DIGEST });
  const install = { id: ACME, name: InstallName.parse("acme") };

  const { secrets, secretsInMemory, spec, document } = await prepare(
    job("setup", { audience: "setup", install, joinFor: ACME }),
    place,
    GRANT,
    joinString,
  );

  assert.deepEqual(secrets, ["granted", "source-token"], "what is journaled");
  assert.deepEqual(secretsInMemory, [joinString, secret]);
  assert.deepEqual(document.secrets, [...secrets, ...secretsInMemory]);
  assert.equal(document.parameters["joinString"], joinString);
  assert.equal(spec.stateVolume, `api-${ACME}`);
  assert.deepEqual([document.install, document.installId], ["acme", ACME]);
});
