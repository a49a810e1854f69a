import assert from "node:assert/strict";
import { test } from "node:test";
import type { AgentKind, Grant } from "@exclave/api";
import {
  type ArtifactRef,
  digestOf,
  Failure,
  InstallId,
  InstallName,
  type Manifest,
  type ReleaseStatement,
  type TrustedRole,
} from "@exclave/core";
import { type ContentStore, copyArtifact, createMemoryStore } from "@exclave/oci";
import { createMemoryJournal } from "../journal/memory-journal.ts";
import { ACME, job, type ManifestChanges } from "../testing/builders.ts";
import { APP, createVendor, RUNNER, stated, writeRelease } from "../testing/stated-release.ts";
import { createFindStatement } from "./find-statements.ts";
import { createReleaseGate } from "./release-gate.ts";

const GRANT: Grant = { registryUrl: "http://vendor.test", credential: "c", expiresAt: 1 };

function world({ kind = "install", prefix = "" }: { kind?: AgentKind; prefix?: string } = {}) {
  const vendor = createVendor();
  let role = vendor.role;
  const own = createMemoryStore();
  const registry = createMemoryStore();
  const journal = createMemoryJournal({ journalId: "j" });
  const read: string[] = [];
  const find = createFindStatement({
    memory: journal,
    role: () => role,
    ...(kind === "install" && {
      own: {
        share: { repository: prefix, mountFrom: [] },
        withRegistry: (_, use) => {
          read.push("own");
          return use(own);
        },
      },
    }),
    withVendor: (_, use) => {
      read.push("vendor");
      return use(registry);
    },
  });
  const app = kind === "install" ? APP : undefined;
  const gate = createReleaseGate({ kind, app, pinnedRunner: RUNNER, memory: journal, find });
  const admit = async (manifest: Manifest, grant?: Grant) => {
    const admitted = await gate.admit(manifest, grant);
    journal.commit(admitted.writes);
    return admitted;
  };
  /** The trust document names these keys from now on. */
  const trust = (keys: TrustedRole["keys"]) => {
    role = { keys, threshold: 1 };
  };
  return { vendor, own, registry, journal, gate, admit, read, trust };
}

function indexOf({ index: { repository, digest } }: ReleaseStatement): ArtifactRef {
  return { repository, digest };
}

function jobOf(
  statement: ReleaseStatement,
  operation: Manifest["operation"] = "apply",
  { step, ...changes }: ManifestChanges = {},
): Manifest {
  const [api] = statement.components;
  const effects: Partial<Record<string, string>> = api?.effects ?? {};
  const effect = effects[operation] ?? "idempotent";
  const sync =
    operation === "sync" ? { plugin: RUNNER, type: undefined, component: undefined } : {};
  return job(operation, {
    operation,
    app: statement.app,
    release: statement.release,
    step: { effect: effect as never, releases: [indexOf(statement)], ...(sync as object), ...step },
    ...changes,
  });
}

function failsWith(code: string, text: RegExp) {
  return (reason: unknown) => {
    assert.ok(reason instanceof Failure, String(reason));
    assert.equal(reason.code, code, reason.message);
    assert.match(reason.message, text);
    return true;
  };
}

test("a statement beside the index in the install's own registry is verified, kept, and not read again", async () => {
  const at = world();
  const release = await writeRelease(at.own, at.vendor);

  await at.admit(jobOf(release));
  await at.admit(jobOf(release, "status"));

  assert.deepEqual(at.read, ["own"]);
  assert.ok(at.journal.statement(release.index.digest));
});

test("on a shared registry the statement is read under the install's prefix", async () => {
  const at = world({ prefix: "globex" });
  const release = await writeRelease(at.registry, at.vendor);
  const target = { repository: `globex/${release.index.repository}` };
  const source = indexOf(release);
  await copyArtifact({ from: at.registry, to: at.own, source, target, referrers: true });

  await at.admit(jobOf(release));

  assert.deepEqual(at.read, ["own"]);
});

test("a sync reads the statement from the vendor, keeps it, and says where it lies", async () => {
  const at = world();
  const release = await writeRelease(at.registry, at.vendor);

  const { statements } = await at.admit(jobOf(release, "sync"), GRANT);

  assert.deepEqual(at.read, ["own", "vendor"]);
  const referrers = await at.registry.referrers(release.index.repository, release.index.digest);
  assert.deepEqual(
    statements.map(({ digest }) => digest),
    referrers.map(({ digest }) => digest),
  );
  assert.deepEqual(at.journal.releases(ACME).floor, { number: 1, numberMin: 1 });
});

test("what is not in the install's registry is to be synced; what nobody stated is refused", async () => {
  const at = world();
  const absent = stated();
  await assert.rejects(at.admit(jobOf(absent)), failsWith("not_synced", /not in the install's/));

  const unsigned = await writeRelease(at.own, createVendor());

  await assert.rejects(at.admit(jobOf(unsigned)), failsWith("signature", /enough keys/));
  assert.equal(at.journal.statement(unsigned.index.digest), undefined);
});

test("a release that only a stranger stated is not synced, and leaves no trace in the journal", async () => {
  const at = world();
  const release = await writeRelease(at.registry, createVendor());

  const syncing = at.admit(jobOf(release, "sync"), GRANT);

  await assert.rejects(syncing, failsWith("signature", /enough keys/));
  assert.deepEqual(at.journal.statements(), []);
  assert.deepEqual(at.journal.releases(ACME).floor, undefined);
});

test("the director alone runs no plugin, artifact or configuration that was not released", async () => {
  const at = world();
  const release = await writeRelease(at.own, at.vendor);
  const evil = { repository: "exclave/plugins/command", digest: digestOf("evil") };
  const refused = failsWith("unreleased", /released|lists|runner/);

  for (const operation of ["plan", "apply", "destroy", "status", "logs", "exec", "sync"] as const) {
    const lie = jobOf(release, operation, { step: { plugin: evil } });
    await assert.rejects(at.admit(lie, GRANT), refused, operation);
  }
  const artifact = jobOf(release, "apply", { step: { artifact: evil } });
  await assert.rejects(at.admit(artifact), refused);
  const config = jobOf(release, "apply", { step: { config: { command: "sh" } } });
  await assert.rejects(at.admit(config), refused);
  const materials = [{ name: "evil", ...evil }];
  await assert.rejects(at.admit(jobOf(release, "sync", { step: { materials } }), GRANT), refused);
  assert.deepEqual(at.journal.statements(), [], "a refused job leaves nothing");
});

test("what was accepted is the floor for what comes after, and survives in the journal", async () => {
  const at = world();
  const [one, two, three] = [
    await writeRelease(at.own, at.vendor, 1),
    await writeRelease(at.own, at.vendor, 2),
    await writeRelease(at.own, at.vendor, 3),
  ];
  await at.admit(jobOf(one));
  await at.admit(jobOf(three, "plan"));

  const older = failsWith("downgrade", /older/);
  await assert.rejects(at.admit(jobOf(two)), older);
  await at.admit(jobOf(two, "apply", { rollback: true }));
  await assert.rejects(at.admit(jobOf(one, "apply", { rollback: true })), older);
});

test("a component is looked at by the release it was applied from, and by a later try of another", async () => {
  const at = world();
  const one = await writeRelease(at.own, at.vendor, 1);
  const two = await writeRelease(at.own, at.vendor, 2);
  await at.admit(jobOf(one));
  const component = "api";
  at.journal.commit([{ kind: "deployed", install: ACME, component, index: one.index.digest }]);
  await at.admit(jobOf(two));

  await at.admit(jobOf(one, "exec"));
  await at.admit(jobOf(two, "destroy"));

  at.journal.commit([{ kind: "undeployed", install: ACME, component }]);
  await assert.rejects(at.admit(jobOf(one, "exec")), failsWith("downgrade", /older/));
});

test("a scheduled status is checked like any other job, with the effect its release says", async () => {
  const at = world();
  const release = await writeRelease(at.own, at.vendor);
  const applied = jobOf(release);

  const status = await at.gate.statusOf(applied);

  assert.deepEqual([status.operation, status.steps[0]?.operation], ["status", "status"]);
  assert.equal(status.steps[0]?.effect, "idempotent");
  await at.admit(status);
  const [step] = status.steps;
  assert.ok(step);
  const changed = { ...status, steps: [{ ...step, config: { other: true } }] };
  await assert.rejects(at.admit(changed), failsWith("unreleased", /configuration/));
});

test("a sync runs by a runner that setup pinned, or that a statement it verified lists", async () => {
  const at = world();
  const newer = { repository: "exclave/runner", digest: digestOf("newer") };
  const one = await writeRelease(at.registry, at.vendor, 1);
  const two = await writeRelease(at.registry, at.vendor, 2, { runner: newer });
  const three = await writeRelease(at.registry, at.vendor, 3);
  await at.admit(jobOf(one, "sync"), GRANT);

  await at.admit(jobOf(two, "sync"), GRANT);

  await at.admit(jobOf(three, "sync", { step: { plugin: newer } }), GRANT);
  const stranger = { repository: "exclave/runner", digest: digestOf("stranger") };
  const lie = jobOf(three, "sync", { step: { plugin: stranger } });
  await assert.rejects(at.admit(lie, GRANT), failsWith("unreleased", /no runner/));
});

test("a setup agent reads the statement from the vendor, and holds each install to its own floor", async () => {
  const at = world({ kind: "setup" });
  const old = await writeRelease(at.registry, at.vendor, 1);
  const release = await writeRelease(at.registry, at.vendor, 3);
  const setUp = (of: ReleaseStatement, name: string, step: ManifestChanges["step"] = {}) => {
    const [local] = of.sandboxes;
    assert.ok(local);
    const usual = { plugin: local.image, type: local.type, component: "sandbox" as never };
    const id = InstallId.parse(`i${name.padEnd(16, "a")}`);
    const install = { id, name: InstallName.parse(name) };
    const config = { directory: "/x" };
    const given = { ...usual, artifact: of.runner, config, effect: "idempotent" as const, ...step };
    return jobOf(of, "apply", { audience: "setup", install, step: given });
  };

  await at.admit(setUp(release, "acme"), GRANT);

  await at.admit(setUp(old, "globex"), GRANT);
  await assert.rejects(at.admit(setUp(old, "acme"), GRANT), failsWith("downgrade", /older/));
  const evil = { repository: "exclave/sandboxes/local", digest: digestOf("evil") };
  const lie = setUp(release, "acme", { plugin: evil });
  await assert.rejects(at.admit(lie, GRANT), failsWith("unreleased", /sandbox local/));
  const seeded = setUp(release, "acme", { artifact: evil });
  await assert.rejects(at.admit(seeded, GRANT), failsWith("unreleased", /sandbox local/));
});

test("a build agent builds and assembles, and nothing else", async () => {
  const at = world({ kind: "build" });

  await at.admit(job("build", { operation: "build" }), GRANT);

  const exec = job("exec", { operation: "exec" });
  await assert.rejects(at.admit(exec, GRANT), failsWith("invalid", /build agent/));
});

test("a statement in the journal no longer counts once its key is revoked, and a sync brings the new one", async () => {
  const at = world();
  const release = await writeRelease(at.own, at.vendor);
  await at.admit(jobOf(release));
  const next = createVendor();

  at.trust([...next.role.keys, ...at.vendor.role.keys]);
  await at.admit(jobOf(release, "status"));
  at.trust(next.role.keys);

  for (const operation of ["apply", "status", "exec", "destroy"] as const) {
    const refused = at.admit(jobOf(release, operation));
    await assert.rejects(refused, failsWith("not_synced", /was revoked; a sync brings/));
  }
  await assert.rejects(at.gate.statusOf(jobOf(release)), failsWith("not_synced", /was revoked/));
  await writeRelease(at.registry, at.vendor);
  const early = at.admit(jobOf(release, "sync"), GRANT);
  await assert.rejects(early, failsWith("signature", /not signed by enough keys/));
  await writeRelease(at.registry, next);
  const { statements } = await at.admit(jobOf(release, "sync"), GRANT);
  await at.admit(jobOf(release, "status"));

  assert.equal(statements[0]?.digest, at.journal.statement(release.index.digest)?.artifact);
});

test("a runner that only a revoked key's statement lists runs no sync", async () => {
  const at = world();
  const runner = { repository: "exclave/runner", digest: digestOf("older runner") };
  const older = await writeRelease(at.own, at.vendor, 1, { runner });
  await at.admit(jobOf(older));
  const next = createVendor();
  const newer = await writeRelease(at.registry, next, 2);
  at.trust([...next.role.keys, ...at.vendor.role.keys]);
  await at.admit(jobOf(newer, "sync", { step: { plugin: runner } }), GRANT);

  at.trust(next.role.keys);

  const refused = at.admit(jobOf(newer, "sync", { step: { plugin: runner } }), GRANT);
  await assert.rejects(refused, failsWith("unreleased", /no runner that was pinned or released/));
});

test("a registry that cannot be reached is no verdict", async () => {
  const at = world();
  const release = await writeRelease(at.own, at.vendor);
  const away: ContentStore = {
    ...at.own,
    referrers: () => Promise.reject(new Failure("unavailable", "away")),
  };
  const find = createFindStatement({
    memory: at.journal,
    role: () => at.vendor.role,
    own: { share: { repository: "", mountFrom: [] }, withRegistry: (_, use) => use(away) },
    withVendor: () => assert.fail("nobody asks the vendor"),
  });

  await assert.rejects(find(indexOf(release), undefined), { code: "unavailable" });
});
