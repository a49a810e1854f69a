// A real server on a port of its own, with what a test needs to talk to it.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { type Client, createClient } from "@exclave/api";
import { verifyChain } from "@exclave/core";
import { createServerFetch } from "@exclave/machine";
import { pino } from "pino";
import { type RunningServer, startServer } from "../server.ts";
import { openKeyDirectory } from "../signer/key-directory.ts";
import type { TlsSettings } from "../tls/listener-tls.ts";
import type { TraceSettings } from "../traces/read-settings.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

export interface TestServer {
  readonly data: string;
  readonly server: RunningServer;
  readonly url: string;
  readonly token: string;
  readonly client: Client;
  stop(): Promise<void>;
  /** Stops and starts on the same directory; what is to happen in between is given. */
  restart(whileDown?: () => Promise<void>): Promise<TestServer>;
}

export async function testServer(
  t: TestContext,
  options: {
    readonly data?: string;
    readonly pingMs?: number;
    readonly logBytesMax?: number;
    readonly followerGraceMs?: number;
    readonly now?: () => number;
    readonly tls?: TlsSettings;
    readonly publicUrl?: string;
    readonly traces?: TraceSettings;
  } = {},
): Promise<TestServer> {
  const data = options.data ?? join(await temporaryDirectory(t), "server");
  const log = pino({ level: process.env["TEST_LOG"] ?? "silent" }, pino.destination(2));
  const server = await startServer({
    openSigner: openKeyDirectory,
    ...options,
    data,
    host: "127.0.0.1",
    port: 0,
    log,
  });
  let isClosed = false;
  const close = async () => {
    if (isClosed) return;
    isClosed = true;
    await server.close();
  };
  t.after(close);
  const token = (await readFile(join(data, "admin-token"), "utf8")).trim();
  const ca = server.context.caFingerprint() && (await readFile(join(data, "keys/ca.crt"), "utf8"));
  const client = createClient({ url: server.listening, token, fetch: createServerFetch({ ca }) });
  return {
    data,
    server,
    url: server.url,
    token,
    client,
    stop: close,
    async restart(whileDown) {
      await close();
      await whileDown?.();
      return testServer(t, { ...options, data });
    },
  };
}

/** The record is whole, and says these things happened, in this order. */
export async function assertOnRecord(
  { server }: Pick<TestServer, "server">,
  ...actions: readonly string[]
): Promise<void> {
  const { audit } = server.context.store.read;
  const records = await audit.after(0, 10_000);
  const verdict = verifyChain(records, { checkpoints: [await audit.head()] });
  assert.equal(verdict.kind, "ok", JSON.stringify(verdict));
  const seen = records.map(({ action }) => action);
  let from = 0;
  for (const action of actions) {
    const at = seen.indexOf(action, from);
    assert.notEqual(at, -1, `${action} is not on record after ${seen.slice(0, from).join(", ")}`);
    from = at + 1;
  }
}

/** Looks until it is so. Ends by the test's own time limit. */
export async function until<Value>(
  look: () => Promise<Value>,
  isSo: (value: Value) => boolean,
  what: string,
): Promise<Value> {
  const deadline = Date.now() + 20_000;
  for (;;) {
    const value = await look();
    if (isSo(value)) return value;
    if (Date.now() > deadline) assert.fail(`${what}: ${JSON.stringify(value, null, 1)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
