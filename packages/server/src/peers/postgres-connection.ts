// The one connection over which a server listens, tells and beats. It is made again whenever it ends.

import { setTimeout as sleep } from "node:timers/promises";
import { asFailure, Failure } from "@exclave/core";
import { Client } from "pg";
import type { Logger } from "pino";
import { connectionSettings, unreached } from "../store/postgres/postgres-pool.ts";
import type { Query } from "./server-rows.ts";

const CHANNEL = "exclave";
/** A database that answers nothing for so long is taken for gone, and dialled again. */
const ANSWER_MS_MAX = 5_000;
const RETRY_MS = { first: 100, most: 2_000 };

export interface PeerConnection {
  readonly query: Query;
  notify(payloads: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export interface PeerConnectionOptions {
  readonly log: Pick<Logger, "info" | "warn">;
  readonly onNotification: (payload: string) => void;
  /** Whenever it is up, before it is used: at the first time, and each time after it was lost. */
  readonly onConnected: (query: Query) => Promise<void>;
}

export async function createPeerConnection(
  url: string,
  { log, onNotification, onConnected }: PeerConnectionOptions,
): Promise<PeerConnection> {
  let client: Client | undefined;
  const closing = new AbortController();
  await connect();

  return {
    query: (text, values) => ask(client, text, values),
    async notify(payloads) {
      if (payloads.length === 0) return;
      const text = `SELECT pg_notify('${CHANNEL}', payload) FROM unnest($1::text[]) AS payload`;
      await ask(client, text, [payloads]);
    },
    async close() {
      closing.abort();
      await client?.end().catch(() => undefined);
    },
  };

  async function connect(): Promise<void> {
    const made = new Client({ ...connectionSettings(url), query_timeout: ANSWER_MS_MAX });
    made.on("error", () => lost(made));
    made.on("end", () => lost(made));
    made.on("notification", ({ payload = "" }) => onNotification(payload));
    try {
      await made.connect();
      await made.query(`LISTEN ${CHANNEL}`);
      await onConnected((text, values) => ask(made, text, values));
      client = made;
    } catch (cause) {
      await made.end().catch(() => undefined);
      throw cause instanceof Failure ? cause : unreached(cause);
    }
  }

  function lost(one: Client): void {
    if (client !== one) return;
    client = undefined;
    void one.end().catch(() => undefined);
    void reconnect();
  }

  async function reconnect(): Promise<void> {
    log.warn({}, "the connection to the other servers is lost; it is made again");
    let pauseMs = RETRY_MS.first;
    while (!closing.signal.aborted) {
      try {
        await connect();
        if (closing.signal.aborted) await client?.end();
        return;
      } catch (reason) {
        log.warn({ reason: asFailure(reason).message }, "the other servers are out of reach");
        await sleep(pauseMs * (0.5 + Math.random() / 2));
        pauseMs = Math.min(RETRY_MS.most, pauseMs * 2);
      }
    }
  }

  async function ask<Row extends object>(
    one: Client | undefined,
    text: string,
    values: readonly unknown[] = [],
  ): Promise<readonly Row[]> {
    if (!one) throw new Failure("unavailable", "the connection to the other servers is down");
    try {
      return (await one.query<Row>(text, [...values])).rows;
    } catch (cause) {
      // One that does not answer in time would hold up all that follows.
      lost(one);
      throw unreached(cause);
    }
  }
}
