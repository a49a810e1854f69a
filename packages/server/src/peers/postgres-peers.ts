// Servers that share a PostgreSQL database: a row each with a heartbeat, and notices by LISTEN and NOTIFY over one
// connection of its own. Notices are sent after the commit that they speak of and in batches: within a transaction
// NOTIFY would make commits wait for each other.

import { randomUUID } from "node:crypto";
import { asFailure } from "@exclave/core";
import type { Logger } from "pino";
import { createAdvisoryLocks } from "./advisory-locks.ts";
import { afterBeat, BEAT_EVERY_MS, isThere, mayJudge, NO_BEATS } from "./heartbeat-rules.ts";
import { type Notice, packNotices, unpackNotices } from "./notice.ts";
import { createOutgoingNotices } from "./outgoing-notices.ts";
import type { PeerListener, Peers } from "./peers.ts";
import { createPeerConnection } from "./postgres-connection.ts";
import { beat, fitIn, type ServerLabel, takeAway, takePlace } from "./server-rows.ts";

export interface PostgresPeersOptions {
  readonly url: string;
  readonly label: ServerLabel;
  readonly log: Pick<Logger, "info" | "warn">;
}

export async function openPostgresPeers(options: PostgresPeersOptions): Promise<Peers> {
  const { url, label, log } = options;
  const listeners: PeerListener[] = [];
  const stopping = new AbortController();
  let name: string = randomUUID();
  let there: readonly string[] = [name];
  let beats = NO_BEATS;

  const outgoing = createOutgoingNotices({
    send: (notices) => connection.notify(packNotices(name, notices)),
    onFailed: sayFailed("the other servers could not be told"),
  });
  const connection = await createPeerConnection(url, {
    log,
    onNotification,
    async onConnected(query) {
      if (beats === NO_BEATS) await fitIn(query, label);
      await takePlace(query, name, label);
      // Whatever was told while nobody listened here is lost.
      outgoing.add({ kind: "everything" });
      unsure();
    },
  });
  await lookAround();
  const beating = setInterval(() => void lookAround(), BEAT_EVERY_MS).unref();

  return {
    self: () => name,
    servers: () => there,
    tell,
    listen: (listener) => void listeners.push(listener),
    ...createAdvisoryLocks(connection.query, stopping.signal),
    async close() {
      stopping.abort();
      clearInterval(beating);
      await outgoing.stop();
      await connection.query(...takeAway(name)).catch(() => undefined);
      await connection.close();
    },
  };

  function tell(notice: Notice): void {
    if (there.length > 1) outgoing.add(notice);
  }

  function onNotification(payload: string): void {
    const told = unpackNotices(payload);
    if (!told || told.from === name) return;
    // Somebody who came since this server looked around.
    if (!there.includes(told.from)) void lookAround();
    for (const notice of told.notices) {
      if (notice.kind === "everything") unsure();
      else for (const { onNotice } of listeners) onNotice(notice, told.from);
    }
  }

  async function lookAround(): Promise<void> {
    if (stopping.signal.aborted) return;
    try {
      const seen = await beat(connection.query, name, mayJudge(beats, performance.now()));
      beats = afterBeat(beats, performance.now());
      if (!seen.some(({ id }) => id === name)) await comeBack();
      const others = seen.filter((server) => server.id !== name && isThere(server));
      const now = [name, ...others.map(({ id }) => id)].toSorted();
      const isSame = now.join() === there.join();
      there = now;
      if (!isSame) unsure();
    } catch (reason) {
      sayFailed("the heartbeat failed and is retried")(reason);
    }
  }

  /** The others took it for dead: what it held is theirs, so it comes as a new one. */
  async function comeBack(): Promise<void> {
    if (stopping.signal.aborted) return;
    log.warn({ before: name }, "this server was taken for dead; it begins anew");
    name = randomUUID();
    await takePlace(connection.query, name, label);
    for (const { onRenamed } of listeners) onRenamed();
    outgoing.add({ kind: "everything" });
    unsure();
  }

  function unsure(): void {
    if (stopping.signal.aborted) return;
    for (const { onUnsure } of listeners) onUnsure();
  }

  function sayFailed(message: string): (reason: unknown) => void {
    return (reason) => log.warn({ reason: asFailure(reason).message }, message);
  }
}
