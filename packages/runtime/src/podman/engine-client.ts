// Speaks to a container engine over its unix socket: the Docker-compatible API, which Podman and Docker
// both serve. HTTP by node:http and nothing else; every answer has a size and every wait an end.

import { type IncomingMessage, request } from "node:http";
import { pipeline } from "node:stream/promises";
import { Failure } from "@exclave/core";
import type { z } from "zod";

export interface EngineClient {
  /** An answer as JSON, read by the schema. */
  read<Value>(path: string, schema: z.ZodType<Value>): Promise<Value>;
  /** Undefined where there is no such thing. */
  find<Value>(path: string, schema: z.ZodType<Value>): Promise<Value | undefined>;
  /** Sends and says the status; one that is neither fine nor expected throws. */
  send(method: Method, path: string, options?: SendOptions): Promise<number>;
  /** The answer's bytes as they come. */
  stream(path: string, signal: AbortSignal): AsyncIterable<Uint8Array>;
}

type Method = "POST" | "PUT" | "DELETE";

export interface SendOptions {
  readonly json?: unknown;
  /** A tar archive, at once or as it is made. */
  readonly archive?: Uint8Array | AsyncIterable<Uint8Array>;
  /** Statuses that say it is so already: 304 for a start, 404 for a removal, 409 for a name. */
  readonly expected?: readonly number[];
  readonly timeoutMs?: number;
}

/** What both engines have had for years. */
const VERSION = "/v1.41";
const ANSWER_BYTES_MAX = 16 * 1024 * 1024;
const TIMEOUT_MS = 60_000;

export function createEngineClient(socket: string): EngineClient {
  return { read, find, send, stream };

  async function read<Value>(path: string, schema: z.ZodType<Value>): Promise<Value> {
    const found = await find(path, schema);
    if (found === undefined) throw new Failure("not_found", `the engine has no ${path}`);
    return found;
  }

  async function find<Value>(path: string, schema: z.ZodType<Value>): Promise<Value | undefined> {
    const answer = await ask("GET", path, {});
    const text = await textOf(answer);
    if (answer.statusCode === 404) return undefined;
    if (!isFine(answer)) throw refusal("GET", path, answer, text);
    // Some questions about what is gone are answered with nothing.
    return text === "" ? undefined : schema.parse(JSON.parse(text));
  }

  async function send(method: Method, path: string, options: SendOptions = {}): Promise<number> {
    const answer = await ask(method, path, options);
    const text = await textOf(answer);
    const status = answer.statusCode ?? 0;
    if (isFine(answer) || options.expected?.includes(status)) {
      // A load that fails half-way has said 200 before it knew.
      const error = options.archive && /"error"\s*:\s*"([^"]*)/.exec(text)?.[1];
      if (error) throw new Failure("unavailable", `the engine could not read it: ${error}`);
      return status;
    }
    throw refusal(method, path, answer, text);
  }

  async function* stream(path: string, signal: AbortSignal): AsyncIterable<Uint8Array> {
    const answer = await ask("GET", path, { signal });
    if (!isFine(answer)) throw refusal("GET", path, answer, await textOf(answer));
    yield* answer as AsyncIterable<Uint8Array>;
  }

  function ask(
    method: Method | "GET",
    path: string,
    { json, archive, signal, timeoutMs = TIMEOUT_MS }: SendOptions & { signal?: AbortSignal },
  ): Promise<IncomingMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const body = json === undefined ? undefined : JSON.stringify(json);
    const sent = request({
      socketPath: socket,
      method,
      path: VERSION + path,
      headers: {
        host: "engine",
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
}

/** A path with its query, every value escaped. */
export function enginePath(path: string, query: Readonly<Record<string, string | number>>): string {
  const text = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) text.set(name, String(value));
  return `${path}?${text.toString()}`;
}

function isFine({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 200 && statusCode < 300;
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX)
      throw new Failure("too_large", "the engine answers without an end");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function refusal(method: string, path: string, answer: IncomingMessage, text: string): Failure {
  const status = answer.statusCode ?? 0;
  const said = saidIn(text);
  const what = `${method} ${path.replace(/\?.*/, "")}`;
  const code = /no space left/i.test(said)
    ? "disk_full"
    : status >= 500
      ? "unavailable"
      : "invalid";
  const details = { status };
  return new Failure(code, `the container engine refuses ${what}: ${said} (${status})`, {
    details,
  });
}

function saidIn(text: string): string {
  try {
    const { message, cause } = JSON.parse(text) as { message?: string; cause?: string };
    return (message ?? cause ?? "no reason given").slice(0, 1_000);
  } catch {
    return text.trim().slice(0, 1_000) || "no reason given";
  }
}
