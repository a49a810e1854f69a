// What every link promises the agent, as tests: over a real network, and over the simulated one, whose runs
// mean nothing unless it keeps the same promises.

import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import type { ServerFrame } from "@exclave/api";
import { type LinkClient, type LinkClientOptions, openLink } from "../link/link-client.ts";
import { silentLog } from "./builders.ts";

export interface LinkUnderTest {
  readonly options: Pick<LinkClientOptions, "serverUrl" | "dial" | "timers" | "elapsedMs">;
  /** The server's ends of all connections that were dialled, in order. */
  readonly peers: readonly LinkPeer[];
  /** Lets time pass until it is so. */
  until(isSo: () => boolean, what: string): Promise<void>;
}

export interface LinkPeer {
  readonly heard: readonly string[];
  readonly isClosed: boolean;
  say(text: string): void;
  cut(): void;
}

export function describeLinkClient(
  name: string,
  create: (t: TestContext) => Promise<LinkUnderTest>,
): void {
  describe(`${name} keeps the link's contract`, () => {
    test("carries frames both ways, in order, and passes over what is no frame", async (t) => {
      const { link, at, heard } = await opened(t, create);
      for (const id of [1, 2]) at.peers[0]?.say(ping(id));
      at.peers[0]?.say("no frame");
      at.peers[0]?.say(ping(3));
      for (const id of [1, 2, 3]) link.send({ type: "pong", id });

      await at.until(() => heard.length === 3 && at.peers[0]?.heard.length === 3, "all arrived");

      assert.deepEqual(heard, [1, 2, 3]);
      assert.deepEqual(at.peers[0]?.heard, [pong(1), pong(2), pong(3)]);
      assert.equal(at.peers.length, 1);
    });

    test("dials anew after a cut, but not before the loss was taken in", async (t) => {
      const loss = Promise.withResolvers<void>();
      const { link, at, losses } = await opened(t, create, () => loss.promise);
      const before = link.session;

      at.peers[0]?.cut();
      await at.until(() => losses() === 1, "the loss was told");
      let looks = 0;
      await at.until(() => ++looks > 20, "a dial would have come");
      const whileTold = at.peers.length;
      loss.resolve();
      await at.until(() => at.peers.length === 2, "the next connection");

      assert.equal(whileTold, 1);
      assert.equal(link.session, before + 1);
    });

    test("loses what is said while nobody listens: it arrives on no later connection", async (t) => {
      const loss = Promise.withResolvers<void>();
      const { link, at, losses } = await opened(t, create, () => loss.promise);
      at.peers[0]?.cut();
      await at.until(() => losses() === 1, "the loss was told");

      link.send({ type: "pong", id: 1 });
      loss.resolve();
      await at.until(() => at.peers.length === 2, "the next connection");
      await at.until(() => {
        link.send({ type: "pong", id: 2 });
        return at.peers[1]?.heard.length !== 0;
      }, "something arrived");

      assert.equal(at.peers[1]?.heard[0], pong(2));
    });

    test("ends a connection that is dropped, and dials the next one", async (t) => {
      const { link, at } = await opened(t, create);

      link.drop("a test wants it");

      await at.until(() => at.peers[0]?.isClosed === true, "the server saw the end");
      await at.until(() => at.peers.length === 2, "the next connection");
    });

    test("dials no more once it is closed", async (t) => {
      const { link, at, losses } = await opened(t, create);
      let isClosed = false;

      const closing = (async () => {
        await link.close();
        isClosed = true;
      })();
      await at.until(() => isClosed && at.peers[0]?.isClosed === true, "the link is closed");
      await closing;

      assert.equal(at.peers.length, 1);
      assert.equal(losses(), 1);
    });
  });
}

async function opened(
  t: TestContext,
  create: (t: TestContext) => Promise<LinkUnderTest>,
  onLoss: () => Promise<void> = async () => undefined,
): Promise<{ link: LinkClient; at: LinkUnderTest; heard: number[]; losses: () => number }> {
  const at = await create(t);
  const heard: number[] = [];
  let losses = 0;
  const link = openLink({
    ...at.options,
    onFrame(frame) {
      if (frame.type === "ping") heard.push(frame.id);
    },
    onDisconnected() {
      losses++;
      return onLoss();
    },
    random: () => 0,
    log: silentLog,
  });
  t.after(() => void link.close());
  await at.until(() => at.peers.length === 1, "the first connection");
  // A dial that has arrived is not yet one that this end knows to be open.
  at.peers[0]?.say(ping(0));
  await at.until(() => heard.length === 1, "the first word");
  heard.length = 0;
  return { link, at, heard, losses: () => losses };
}

function ping(id: number): string {
  return JSON.stringify({ type: "ping", id } satisfies ServerFrame);
}

function pong(id: number): string {
  return JSON.stringify({ type: "pong", id });
}
