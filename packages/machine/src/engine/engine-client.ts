// Speaks to a container engine over its unix socket: the Docker-compatible API, which Podman and Docker
// both serve. HTTP by node:http and nothing else; every answer has a size and every wait an end.

import type { IncomingMessage } from "node:http";
import { Failure } from "@exclave/core";
import type { z } from "zod";
import { askEngine, type EngineRequest, TIMEOUT_MS } from "./engine-request.ts";
import { payloads } from "./log-frames.ts";

export interface EngineClient {
  /** An answer as JSON, read by the schema. */
  read<Value>(path: string, schema: z.ZodType<Value>): Promise<Value>;
  /** Undefined where there is no such thing. */
  find<Value>(path: string, schema: z.ZodType<Value>): Promise<Value | undefined>;
  /** Sends and says the status; one that is neither fine nor expected throws. */
  send(method: Method, path: string, options?: SendOptions): Promise<number>;
  /** Sends, and reads the answer by the schema. */
  ask<Value>(method: Method, path: string, json: unknown, schema: z.ZodType<Value>): Promise<Value>;
  /** Whether there is such a thing. */
  has(path: string): Promise<boolean>;
  /** The answer's bytes as they come. */
  stream(path: string, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** What a container or a command in it says, without the frames that engines put around it. */
  output(
    method: "GET" | "POST",
    path: string,
    options: { readonly json?: unknown; readonly signal: AbortSignal },
  ): AsyncIterable<Uint8Array>;
  /** The end of a container's log, on one line: for a failure to say. */
  lastWords(container: string): Promise<string>;
}

export interface EngineClientOptions {
  /** For what stands before an engine and wants to know who asks. */
  readonly token?: string | undefined;
}

type Method = "POST" | "PUT" | "DELETE";

export interface SendOptions extends Omit<EngineRequest, "signal"> {
  /** Statuses that say it is so already: 304 for a start, 404 for a removal, 409 for a name. */
  readonly expected?: readonly number[];
}

const ANSWER_BYTES_MAX = 16 * 1024 * 1024;
const LAST_LINES = 5;
const WORDS_MAX = 1_000;

export function createEngineClient(
  socket: string,
  { token }: EngineClientOptions = {},
): EngineClient {
  const place = { socket, token };
  return { read, find, send, ask: askFor, has, stream, output, lastWords };

  async function read<Value>(path: string, schema: z.ZodType<Value>): Promise<Value> {
    const found = await find(path, schema);
    if (found === undefined) throw new Failure("not_found", `the engine has no ${path}`);
    return found;
  }

  async function find<Value>(path: string, schema: z.ZodType<Value>): Promise<Value | undefined> {
    const answer = await askEngine(place, "GET", path, {});
    const text = await textOf(answer);
    if (answer.statusCode === 404) return undefined;
    if (!isFine(answer)) throw refusal("GET", path, answer, text);
    // Some questions about what is gone are answered with nothing.
    return text === "" ? undefined : schema.parse(JSON.parse(text));
  }

  async function send(method: Method, path: string, options: SendOptions = {}): Promise<number> {
    const answer = await askEngine(place, method, path, options);
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

  async function askFor<Value>(
    method: Method,
    path: string,
    json: unknown,
    schema: z.ZodType<Value>,
  ): Promise<Value> {
    const answer = await askEngine(place, method, path, { json });
    const text = await textOf(answer);
    if (!isFine(answer)) throw refusal(method, path, answer, text);
    return schema.parse(JSON.parse(text));
  }

  async function has(path: string): Promise<boolean> {
    const answer = await askEngine(place, "HEAD", path, {});
    answer.resume();
    if (answer.statusCode === 404) return false;
    if (isFine(answer)) return true;
    throw refusal("HEAD", path, answer, "");
  }

  async function* stream(path: string, signal: AbortSignal): AsyncIterable<Uint8Array> {
    yield* flow("GET", path, { signal });
  }

  async function* output(
    method: "GET" | "POST",
    path: string,
    options: { readonly json?: unknown; readonly signal: AbortSignal },
  ): AsyncIterable<Uint8Array> {
    yield* payloads(flow(method, path, options), 0);
  }

  async function lastWords(container: string): Promise<string> {
    const query = { stdout: 1, stderr: 1, tail: LAST_LINES };
    const path = enginePath(`/containers/${container}/logs`, query);
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    let said = "";
    for await (const bytes of output("GET", path, { signal }))
      said += Buffer.from(bytes).toString();
    return said.trim().replaceAll("\n", " / ").slice(-WORDS_MAX);
  }

  async function* flow(
    method: Method | "GET",
    path: string,
    options: { readonly json?: unknown; readonly signal: AbortSignal },
  ): AsyncIterable<Uint8Array> {
    const answer = await askEngine(place, method, path, options);
    if (!isFine(answer)) throw refusal(method, path, answer, await textOf(answer));
    yield* answer as AsyncIterable<Uint8Array>;
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
