// The server's authority is replaced while an agent trusts the old one: it learns the new one over its link, and
// knows the server by that alone when the old one is retired.

import assert from "node:assert/strict";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import {
  createJoin,
  getAuthority,
  listAgents,
  retireAuthority,
  rotateAuthority,
} from "@exclave/api";
import { createServerFetch, findServerCa, learnAuthorities } from "@exclave/machine";
import { openAuthority, temporaryDirectory, until } from "@exclave/server/simulation";
import { startTlsAgent } from "./tls-agent.ts";
import { joinStringOf, joinWith, type TlsServer, tlsServer } from "./tls-world.ts";

async function online({ client }: TlsServer): Promise<boolean> {
  const { items } = await client.call(listAgents, { query: {} });
  return items.some(({ status }) => status === "online");
}

async function linked(t: TestContext) {
  const server = await tlsServer(t);
  const { joinString } = await server.client.call(createJoin, { body: { kind: "setup" } });
  const agent = await startTlsAgent(t, { joinString });
  await until(() => online(server), Boolean, "the agent is linked");
  return { server, agent };
}

async function answers(url: string, ca: string): Promise<number> {
  return (await createServerFetch({ ca })(`${url}/healthz`)).status;
}

const record = async ({ server }: TlsServer) =>
  (await server.context.store.read.audit.after(0, 1_000)).map(({ action }) => action);

test("an agent learns the new authority over its link, before the old one is retired", async (t) => {
  const { server, agent } = await linked(t);
  const { client, url, data } = server;
  const oldCa = await readFile(join(data, "keys/ca.crt"), "utf8");

  const { current, old } = await client.call(rotateAuthority, { body: {} });
  await until(
    () => client.call(getAuthority),
    ({ behind }) => behind.agents === 0,
    "the agent says it knows it",
  );

  assert.equal(old?.fingerprint, server.caFingerprint);
  assert.notEqual(current.fingerprint, old?.fingerprint);
  assert.deepEqual(
    [await answers(url, oldCa), await answers(url, current.certificate)],
    [200, 200],
  );
  assert.equal(await findServerCa(url, current.fingerprint), current.certificate);
  assert.equal(await findServerCa(url, server.caFingerprint), oldCa);
  await assert.rejects(client.call(rotateAuthority, { body: {} }), /retire it first/);

  await client.call(retireAuthority, { body: {} });
  await agent.stop();
  const back = await startTlsAgent(t, { home: agent.home });
  const ask = createServerFetch({ ca: current.certificate });
  await until(
    async () => {
      const headers = { authorization: `Bearer ${server.token}` };
      const { items } = (await (await ask(`${url}/v1/agents`, { headers })).json()) as {
        items: { status: string }[];
      };
      return items;
    },
    (items) => items.some(({ status }) => status === "online"),
    "it is back, by the new authority alone",
  );
  assert.ok(!back.said.join("\n").includes("not by an authority"), back.said.join("\n"));
  // A connection that nothing keeps from before: whoever pinned the old one is refused now.
  await assert.rejects(answers(url, oldCa), /certificate|issuer/);
  const seen = await record(server);
  assert.ok(seen.indexOf("authority.rotated") >= 0);
  assert.ok(seen.indexOf("authority.retired") > seen.indexOf("authority.rotated"));
});

test("whoever pinned the old authority learns the new one from any answer, and nothing from a stranger's", async (t) => {
  const [server, stranger] = [await tlsServer(t), await tlsServer(t)];
  const pinned = await readFile(join(server.data, "keys/ca.crt"), "utf8");
  const other = await readFile(join(stranger.data, "keys/ca.crt"), "utf8");
  const learned = async (of: TlsServer, ca: string, held = ca) => {
    const found: (string | undefined)[] = [];
    const onPresented = (chain: Parameters<typeof learnAuthorities>[1]) =>
      void found.push(learnAuthorities(held, chain));
    await createServerFetch({ ca, onPresented })(`${of.url}/healthz`);
    return found[0];
  };
  assert.equal(await learned(server, pinned), undefined, "nothing is being replaced");

  const { current } = await server.client.call(rotateAuthority, { body: {} });
  await stranger.client.call(rotateAuthority, { body: {} });
  const kept = (await learned(server, pinned)) ?? "";

  assert.equal(kept, current.certificate + pinned);
  assert.equal(await learned(server, kept), undefined, "it is known by now");
  assert.equal(await learned(stranger, other, pinned), undefined, "another server's change");
  await server.client.call(retireAuthority, { body: { force: true } });
  assert.equal(await answers(server.url, kept), 200);
});

test("the old authority is not retired while an agent knows no other, unless forced", async (t) => {
  const { server, agent } = await linked(t);
  await agent.stop();
  await until(
    () => online(server),
    (is) => !is,
    "it is away",
  );
  await server.client.call(rotateAuthority, { body: {} });

  await assert.rejects(
    server.client.call(retireAuthority, { body: {} }),
    /1 agents do not know the current authority yet \(setup\)/,
  );
  const { old } = await server.client.call(retireAuthority, { body: { force: true } });

  assert.equal(old, null);
});

test("a join string made after the change pins the new authority", async (t) => {
  const server = await tlsServer(t);
  const { current } = await server.client.call(rotateAuthority, { body: {} });

  const { identity } = await joinWith(await joinStringOf(server));

  assert.equal(identity.serverCa, current.certificate);
});

test("a change that a crash cut short is finished at the next start, or never began", async (t) => {
  const keys = await temporaryDirectory(t);
  const opened = await openAuthority({ keys, now: Date.now });
  const next = opened.makeNext();
  const pem = (key: typeof next.privateKey) =>
    key.export({ type: "pkcs8", format: "pem" }).toString();
  await writeFile(join(keys, "ca-next.pem"), pem(next.privateKey));
  await writeFile(join(keys, "ca-cross.crt"), next.cross.toString());

  const notBegun = await openAuthority({ keys, now: Date.now });
  assert.deepEqual([notBegun.fingerprint, notBegun.old], [opened.fingerprint, undefined]);

  // Cut short after the key took its place, before its certificate did.
  await writeFile(join(keys, "ca-next.crt"), next.certificate.toString());
  await rm(join(keys, "ca-next.pem"), { force: true });
  await writeFile(join(keys, "ca.pem"), pem(next.privateKey));
  const finished = await openAuthority({ keys, now: Date.now });

  assert.equal(finished.certificate.toString(), next.certificate.toString());
  assert.equal(finished.old?.toString(), opened.certificate.toString());
});
