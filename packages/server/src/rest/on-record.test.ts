// Everything that is asked for is on record, walked: every call that changes something, and who made it.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CALLS,
  cancelJob,
  createJoin,
  createToken,
  deployInstall,
  destroyInstall,
  forgetInstall,
  listReleases,
  publishTrust,
  renewTrust,
  revokeAgent,
  revokeToken,
  rotateKey,
  runInInstall,
  setChannel,
  setupInstall,
} from "@exclave/api";
import { CRM, create, SOURCES, settled, type World, world } from "../testing/deployed-world.ts";
import { signedBy, takeRoot } from "../testing/offline-root.ts";
import { joinVendorAgent } from "../testing/scripted-agent.ts";
import { release, uploadSource } from "../testing/scripted-vendor.ts";
import { until } from "../testing/test-server.ts";

/** Calls that may change something and leave no entry of whoever made them, each with its reason. */
const WITHOUT_ENTRY: Readonly<Record<string, string>> = {
  checkApp: "changes nothing",
  rotateAuthority: "needs a server that speaks TLS: tests/tls/rotation.test.ts",
  retireAuthority: "needs a server that speaks TLS: tests/tls/rotation.test.ts",
  joinAgent: "made by an agent, which has no token yet; on record as the agent's own",
};

const params = { install: "acme" as never };

interface Use {
  /** By name, with what each leaves on record. */
  readonly calls: Readonly<Record<string, string>>;
  readonly make: (at: World) => Promise<unknown>;
}

/** One use of each call, in an order in which each finds what it needs. */
const USES: readonly Use[] = [
  {
    calls: { putSource: "source.uploaded" },
    make: ({ server }) => uploadSource(server, "a source"),
  },
  {
    calls: { createRelease: "release.created" },
    make: ({ server }) => release(server, CRM, SOURCES, { channel: "stable" }),
  },
  {
    calls: { setChannel: "channel.moved" },
    async make({ server: { client } }) {
      const { items } = await client.call(listReleases);
      await client.call(setChannel, {
        params: { app: "crm", channel: "beta" },
        body: { release: items[0]?.id ?? "" },
      });
    },
  },
  {
    calls: { createInstall: "install.created" },
    async make(at) {
      await create(at);
      await settled(at);
    },
  },
  {
    calls: { deployInstall: "install.deploy_asked" },
    make: ({ server: { client } }) => client.call(deployInstall, { params, body: {} }),
  },
  {
    calls: { runInInstall: "job.created" },
    async make({ server: { client }, install }) {
      install.leaveRunning.add("exec api");
      await client.call(runInInstall, {
        params: { ...params, component: "api" },
        body: { operation: "exec", command: ["sleep", "60"] },
      });
      await until(
        async () => install.done.at(-1),
        (last) => last === "exec api",
        "the command runs",
      );
    },
  },
  {
    calls: { cancelJob: "job.cancel_requested" },
    async make({ server: { client }, install }) {
      const manifest = install.manifests.at(-1);
      assert.ok(manifest);
      await client.call(cancelJob, { params: { job: manifest.id }, body: {} });
      await install.agent()?.end(manifest, { outcome: { kind: "cancelled" } });
    },
  },
  {
    calls: { setupInstall: "install.setup_asked" },
    make: ({ server: { client } }) => client.call(setupInstall, { params, body: {} }),
  },
  {
    calls: { destroyInstall: "install.destroy_asked" },
    async make(at) {
      await settled(at);
      await at.server.client.call(destroyInstall, { params, body: {} });
      await settled(at, "destroyed");
    },
  },
  {
    calls: { forgetInstall: "install.forgotten" },
    make: ({ server: { client } }) => client.call(forgetInstall, { params }),
  },
  {
    calls: { createToken: "token.created", revokeToken: "token.revoked" },
    async make({ server: { client } }) {
      const { id } = await client.call(createToken, { body: { name: "ci", role: "viewer" } });
      await client.call(revokeToken, { params: { token: id } });
    },
  },
  {
    calls: { createJoin: "join.created", revokeAgent: "agent.revoked" },
    async make({ server }) {
      const { agent } = await joinVendorAgent(server, "build");
      await server.client.call(createJoin, { body: { kind: "build" } });
      await server.client.call(revokeAgent, { params: { agent }, body: {} });
    },
  },
  {
    calls: { renewTrust: "trust.published" },
    make: ({ server: { client } }) => client.call(renewTrust, { body: {} }),
  },
  {
    calls: { rotateKey: "trust.published" },
    make: ({ server: { client } }) =>
      client.call(rotateKey, { params: { role: "director" }, body: {} }),
  },
  {
    calls: {
      exportRootKey: "root.exported",
      forgetRootKey: "root.forgotten",
      publishTrust: "trust.published",
    },
    async make({ server }) {
      const root = await takeRoot(server);
      const change = await server.client.call(renewTrust, { body: {} });
      await server.client.call(publishTrust, { body: signedBy(change, root) });
    },
  },
];

test("every call that changes something is on record, with who made it", async (t) => {
  const at = await world(t);
  const { audit } = at.server.server.context.store.read;

  for (const { calls, make } of USES) {
    const before = await audit.head();
    await make(at);
    const entries = await audit.after(before.size, 1_000);
    const made = entries.filter(({ actor }) => actor === "token:admin").map(({ action }) => action);
    for (const [call, action] of Object.entries(calls))
      assert.ok(made.includes(action), `${call}: ${made.join(", ")}`);
  }

  const walked = [
    ...USES.flatMap(({ calls }) => Object.keys(calls)),
    ...Object.keys(WITHOUT_ENTRY),
  ];
  assert.deepEqual(
    CALLS.filter(({ method }) => method !== "GET")
      .map(({ name }) => name)
      .sort(),
    walked.sort(),
  );
});
