import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { deployInstall, destroyInstall, type ReleaseView, setChannel } from "@exclave/api";
import {
  CRM,
  deployedWorld,
  SOURCES,
  settled,
  show,
  type World,
} from "../testing/deployed-world.ts";
import { release } from "../testing/scripted-vendor.ts";
import { until } from "../testing/test-server.ts";

/** An install that went through three releases, of which each allows one step back. */
async function threeReleases(t: TestContext) {
  const at = await deployedWorld(t);
  const releases: ReleaseView[] = [];
  for (const api of ["api 2", "api 3"]) {
    releases.push(await release(at.server, CRM, { ...SOURCES, api }, { channel: "stable" }));
    await settledOn(at, releases.at(-1));
  }
  const [second, third] = releases;
  assert.ok(second && third);
  return { at, second, third };
}

async function settledOn(at: World, wanted: ReleaseView | undefined): Promise<void> {
  await until(
    () => show(at),
    ({ release: id, phase }) => id === wanted?.id && phase === "settled",
    `acme is settled on ${wanted?.version}`,
  );
}

function deploy({ server }: World, version: string) {
  return server.client.call(deployInstall, {
    params: { install: "acme" },
    body: { release: version },
  });
}

describe("going back to an older release", () => {
  test("is directed as a rollback, as far as the newest release allows", async (t) => {
    const { at, second } = await threeReleases(t);
    const before = at.install.manifests.length;

    await deploy(at, second.version);
    await settledOn(at, second);

    const since = at.install.manifests.slice(before);
    assert.ok(since.some(({ operation }) => operation === "apply"));
    assert.deepEqual(
      since.filter(({ rollback }) => rollback !== true).map(({ operation }) => operation),
      [],
    );
    assert.ok(
      at.install.manifests.slice(0, before).every(({ rollback }) => rollback === undefined),
      "going forward is none",
    );
  });

  test("a destroy is always directed as one: a server that was set back forgets what is newer", async (t) => {
    const at = await deployedWorld(t);

    await at.server.client.call(destroyInstall, { params: { install: "acme" } });
    await until(
      () => Promise.resolve(at.install.done),
      (done) => done.includes("destroy database"),
      "the last component is destroyed",
    );

    const destroys = at.install.manifests.filter(({ operation }) => operation === "destroy");
    assert.deepEqual(
      destroys.map(({ rollback }) => rollback),
      [true, true, true],
    );
  });

  test("further back is refused at once, with a sentence to whoever asks", async (t) => {
    const { at, third } = await threeReleases(t);

    await assert.rejects(deploy(at, "1"), (failure: { code: string; message: string }) => {
      assert.equal(failure.code, "downgrade");
      assert.match(failure.message, /acme cannot go back: release 1 .* allows no rollback below/);
      assert.match(failure.message, /rollback\.releases/);
      return true;
    });

    assert.equal((await settled(at)).release, third.id);
  });

  test("a channel that was moved further back holds the install, and says why", async (t) => {
    const { at } = await threeReleases(t);
    const done = at.install.done.length;

    await at.server.client.call(setChannel, {
      params: { app: "crm", channel: "stable" },
      body: { release: "1" },
    });

    const held = await until(
      () => show(at),
      ({ holds }) => holds.length > 0,
      "acme is held",
    );
    assert.match(held.holds[0]?.because ?? "", /release 1 .* is older than .* no rollback below/);
    assert.match(held.holds[0]?.endsWhen ?? "", /exclave install deploy acme --release/);
    assert.equal(at.install.done.length, done, "nothing is directed that the agent would refuse");
  });
});
