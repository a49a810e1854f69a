// One request to a container engine over its unix socket, and the answer as it begins.

import { type IncomingMessage, request } from "node:http";
import { pipeline } from "node:stream/promises";
import { Failure } from "@exclave/core";

export interface EnginePlace {
  readonly socket: string;
  readonly token?: string | undefined;
}

export interface EngineRequest {
  readonly json?: unknown;
  /** A tar archive, at once or as it is made. */
  readonly archive?: Uint8Array | AsyncIterable<Uint8Array>;
  readonly timeoutMs?: number;
  /** Instead of a time: for answers that are read for hours. */
  readonly signal?: AbortSignal;
}

/** What both engines have had for years. */
const VERSION = "/v1.41";
export const TIMEOUT_MS = 60_000;

export function askEngine(
  { socket, token }: EnginePlace,
  method: string,
  path: string,
  { json, archive, signal, timeoutMs = TIMEOUT_MS }: EngineRequest,
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const body = json === undefined ? undefined : JSON.stringify(json);
  const sent = request({
    socketPath: socket,
    method,
    path: VERSION + path,
    headers: {
      host: "engine",
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(archive !== undefined && { "content-type": "application/x-tar" }),
    },
    // A connection of its own: one that is read for hours is nobody else's.
    agent: false,
    ...(signal && { signal }),
  });
  const unreachable = (cause: Error) =>
    reject(
      new Failure("unavailable", `the container engine at ${socket}: ${cause.message}`, {
        cause,
      }),
    );
  sent.once("response", resolve);
  sent.on("error", unreachable);
  if (!signal) {
    sent.setTimeout(timeoutMs, () => sent.destroy(new Error(`no answer within ${timeoutMs} ms`)));
  }
  if (archive === undefined || archive instanceof Uint8Array) sent.end(archive ?? body);
  else pipeline(archive, sent).catch(unreachable);
  return promise;
}
