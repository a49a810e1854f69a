// Client certificates of agents on the link: given at the join, asked for by the server, renewed while the link
// is up, renewed by the key alone after an outage, and worth nothing in other hands.

import assert from "node:assert/strict";
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  X509Certificate,
} from "node:crypto";
import { once } from "node:events";
import { cpSync, readFileSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import type { TLSSocket } from "node:tls";
import { createDial } from "@exclave/agent/simulation";
import { createJoin, getInfo, listAgents, revokeAgent } from "@exclave/api";
import type { ServerDoor } from "@exclave/machine";
import { makeCertificate, until } from "@exclave/server/simulation";
import { greetThrough, startTlsAgent, type TlsAgent } from "./tls-agent.ts";
import { joinStringOf, joinWith, type TlsServer, tlsServer } from "./tls-world.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** A server with a clock that the test moves, and an agent linked to it. */
async function linked(t: TestContext) {
  const clock = { aheadMs: 0 };
  const now = () => Date.now() + clock.aheadMs;
  const server = await tlsServer(t, { now });
  const joinString = await setupJoin(server);
  const agent = await startTlsAgent(t, { joinString, now });
  await untilOnline(server);
  return { clock, now, server, agent };
}

async function setupJoin({ client }: TlsServer): Promise<string> {
  return (await client.call(createJoin, { body: { kind: "setup" } })).joinString;
}

function certificateIn({ home }: TlsAgent): X509Certificate {
  return new X509Certificate(readFileSync(join(home, "agent/certificate.pem")));
}

async function agentOf({ client }: TlsServer) {
  const { items } = await client.call(listAgents, { query: {} });
  const [agent] = items;
  assert.ok(agent);
  return agent;
}

function untilOnline(server: TlsServer) {
  return until(
    () => agentOf(server),
    ({ status }) => status === "online",
    "the agent is linked",
  );
}

async function epochOf({ server }: TlsServer): Promise<number | undefined> {
  return (await server.context.store.read.agents.byAudience("setup"))?.sessionEpoch;
}

/** A build agent that joined, with its certificate and the door it would dial through. */
async function joined(server: TlsServer) {
  const { identity, certificate = "" } = await joinWith(await joinStringOf(server));
  const ca = await readFile(join(server.data, "keys/ca.crt"), "utf8");
  const own = { cert: certificate, key: identity.identityKey };
  return { identity, ca, own };
}

function codes(frames: Awaited<ReturnType<typeof greetThrough>>): string[] {
  return frames.map((frame) => (frame.type === "goaway" ? `goaway ${frame.code}` : frame.type));
}

describe("an agent's client certificate", () => {
  test("comes with the join, is of the agent's own key for a day, and says whose it is", async (t) => {
    const server = await tlsServer(t);
    const { identity, own } = await joined(server);
    const certificate = new X509Certificate(own.cert);
    const ca = new X509Certificate(await readFile(join(server.data, "keys/ca.crt")));

    assert.ok(certificate.verify(ca.publicKey));
    assert.ok(certificate.checkPrivateKey(createPrivateKey(own.key)));
    assert.equal(certificate.subjectAltName, `URI:exclave://agent/${identity.agent}/build/1`);
    const lifeMs = certificate.validToDate.getTime() - Date.now();
    assert.ok(lifeMs > DAY_MS - 60_000 && lifeMs <= DAY_MS, `${lifeMs}`);
    assert.ok(certificate.validFromDate.getTime() < Date.now() - 4 * 60_000, "for clocks behind");
  });

  test("is asked for on the link and nowhere else", async (t) => {
    const server = await tlsServer(t);
    const { identity, ca, own } = await joined(server);

    assert.equal((await server.client.call(getInfo)).name, "exclave");
    assert.deepEqual(codes(await greetThrough({ ca, own }, identity)).slice(0, 1), ["welcome"]);
    assert.deepEqual(codes(await greetThrough({ ca }, identity)), [
      "certificate",
      "goaway certificate",
    ]);
    const old = await greetThrough({ ca }, identity, { capabilities: [] });
    assert.deepEqual(codes(old), ["goaway certificate"], "it had one, and cannot take another");
  });

  test("is named in the welcome as what both sides can do (L-7.2)", async (t) => {
    const server = await tlsServer(t);
    const { identity, ca, own } = await joined(server);
    const capabilities = async (named: string[]) => {
      const [welcome] = await greetThrough({ ca, own }, identity, { capabilities: named });
      return welcome?.type === "welcome" ? welcome.capabilities : undefined;
    };

    assert.deepEqual(await capabilities(["certificates", "of-the-future"]), ["certificates"]);
    assert.deepEqual(await capabilities([]), []);
  });

  test("is renewed over the link after two thirds of its life, without another connection", async (t) => {
    const { clock, server, agent } = await linked(t);
    const [before, epoch] = [certificateIn(agent).serialNumber, await epochOf(server)];
    clock.aheadMs = 17 * HOUR_MS;

    await until(
      async () => certificateIn(agent).serialNumber,
      (serial) => serial !== before,
      "another certificate is on disk",
    );

    assert.equal((await agentOf(server)).status, "online");
    assert.equal(await epochOf(server), epoch);
    const left = certificateIn(agent).validToDate.getTime() - Date.now() - clock.aheadMs;
    assert.ok(left > 23 * HOUR_MS, `${left}`);
  });

  test("that ended during an outage is renewed for the key alone, for 90 days", async (t) => {
    const { clock, now, server, agent } = await linked(t);
    await agent.stop();
    clock.aheadMs = 60 * DAY_MS;

    const back = await startTlsAgent(t, { home: agent.home, now });
    await untilOnline(server);
    await back.stop();
    const left = certificateIn(agent).validToDate.getTime() - now();
    assert.ok(left > 0, "the one it came back with");
    clock.aheadMs += 92 * DAY_MS;
    const late = await startTlsAgent(t, { home: agent.home, now });
    await until(
      async () => late.said.join("\n"),
      (said) => /its certificate ended 9\d days ago.*it has to join anew/.test(said),
      "it is told to join anew",
    );

    assert.equal((await agentOf(server)).status, "offline");
    const records = await server.server.context.store.read.audit.after(0, 1_000);
    const renewed = records.filter(({ action }) => action === "agent.certificate_renewed");
    assert.equal(renewed.length, 1);
  });

  test("that was lost is given again, as to an agent that joined before there were any", async (t) => {
    const { now, server, agent } = await linked(t);
    await agent.stop();
    rmSync(join(agent.home, "agent/certificate.pem"));

    await startTlsAgent(t, { home: agent.home, now });
    await untilOnline(server);

    assert.ok(certificateIn(agent).validToDate.getTime() > now());
  });

  test("of a revoked agent lets nobody in and is not renewed; its connection ends", async (t) => {
    const { now, server, agent } = await linked(t);
    const { id } = await agentOf(server);

    await server.client.call(revokeAgent, { params: { agent: id }, body: {} });
    await until(
      () => agentOf(server),
      ({ status }) => status === "offline",
      "it is gone",
    );
    await agent.stop();
    rmSync(join(agent.home, "agent/certificate.pem"));
    const again = await startTlsAgent(t, { home: agent.home, now });
    await until(
      async () => again.said.join("\n"),
      (said) => said.includes("this agent was revoked; it has to join anew"),
      "it is refused",
    );

    assert.throws(() => certificateIn(agent), /ENOENT/);
  });

  test("copied with its key to another machine is noticed as a copy", async (t) => {
    const { now, server, agent } = await linked(t);
    const copy = join(agent.home, "..", "copy");
    cpSync(agent.home, copy, { recursive: true });
    await startTlsAgent(t, { home: copy, now });

    const row = await until(
      async () => server.server.context.store.read.agents.byAudience("setup"),
      (found) => found?.alarms.some(({ code }) => code === "cloned_key") === true,
      "two processes take turns",
    );

    assert.match(row?.alarms.at(-1)?.because ?? "", /two processes hold this agent's key/);
  });

  test("of another agent, or of another install, does not carry this one's hello", async (t) => {
    const server = await tlsServer(t);
    const { identity, ca } = await joined(server);
    const other = await startTlsAgent(t, { joinString: await setupJoin(server) });
    const identityOfOther = JSON.parse(
      readFileSync(join(other.home, "agent/identity.json"), "utf8"),
    ) as { identityKey: string };
    const own = {
      cert: certificateIn(other).toString(),
      key: identityOfOther.identityKey,
    };

    const frames = await greetThrough({ ca, own }, identity);

    assert.deepEqual(codes(frames), ["goaway unauthenticated"]);
    const records = await server.server.context.store.read.audit.after(0, 1_000);
    assert.ok(
      records.some(({ action }) => action === "login.failed"),
      "on record",
    );
  });

  test("by another authority counts for nothing, whatever it says", async (t) => {
    const server = await tlsServer(t);
    const { identity, ca } = await joined(server);
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const key = createPublicKey(identity.identityKey);
    const uri = `exclave://agent/${identity.agent}/build/1`;
    const forged = makeCertificate(
      {
        about: { kind: "agent", uri },
        name: identity.agent,
        key,
        notBefore: Date.now() - 60_000,
        notAfter: Date.now() + HOUR_MS,
        serial: Buffer.from([7]),
      },
      { privateKey },
    ).toString();

    const frames = await greetThrough(
      { ca, own: { cert: forged, key: identity.identityKey } },
      identity,
    );

    assert.deepEqual(codes(frames), ["certificate", "goaway certificate"]);
  });
});

test("a link that is dialled again resumes the TLS session, and shows another certificate anew", async (t) => {
  const server = await tlsServer(t);
  const { identity, ca, own } = await joined(server);
  const { own: next } = await joined(server);
  let door: ServerDoor = { ca, own };
  const dial = createDial(() => door);
  const isReused = async () => {
    const socket = dial(`${identity.serverUrl.replace("https:", "wss:")}/v1/link`);
    const [response] = (await once(socket, "upgrade")) as [IncomingMessage];
    await once(socket, "message");
    const isResumed = (response.socket as TLSSocket).isSessionReused();
    socket.terminate();
    return isResumed;
  };

  const first = [await isReused(), await isReused()];
  door = { ca, own: next };
  const other = await isReused();

  assert.deepEqual([...first, other], [false, true, false]);
});
