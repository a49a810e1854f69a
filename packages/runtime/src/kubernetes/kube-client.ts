// Speaks to a Kubernetes API server: HTTPS by node:https and nothing else. Every answer has a size and every
// wait an end; what is followed ends with its signal.

import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { Failure } from "@exclave/core";
import type { z } from "zod";
import type { KubeConnection } from "./kube-connection.ts";

export interface KubeClient {
  /** Undefined where there is no such thing. */
  find<Value>(path: string, schema: z.ZodType<Value>): Promise<Value | undefined>;
  /** Sends and reads the answer; undefined for a status that was expected and is not fine. */
  send<Value>(
    method: "POST" | "PUT" | "DELETE",
    path: string,
    options: SendOptions<Value>,
  ): Promise<Value | undefined>;
  /** The answer's bytes as they come, until it ends or `signal` fires; `onOpen` when they are about to. */
  stream(path: string, signal: AbortSignal, onOpen?: () => void): AsyncIterable<Uint8Array>;
  /** Lets go of connections that are kept for the next request. */
  close(): void;
}

export interface SendOptions<Value> {
  readonly json?: unknown;
  readonly schema: z.ZodType<Value>;
  /** Statuses that say it is so already: 404 for a deletion, 409 for a name that is taken. */
  readonly expected?: readonly number[];
}

const ANSWER_BYTES_MAX = 16 * 1024 * 1024;
const TIMEOUT_MS = 30_000;
const CONNECTIONS_MAX = 16;
/** A stream that says nothing for so long is asked for anew: its connection may be dead. */
const SILENCE_MS = 5 * 60_000;

export function createKubeClient(connection: KubeConnection): KubeClient {
  const base = new URL(connection.server);
  const tls = {
    ...(connection.ca !== undefined && { ca: connection.ca }),
    ...connection.certificate,
  };
  const kept = new Agent({ keepAlive: true, maxSockets: CONNECTIONS_MAX, ...tls });
  return { find, send, stream, close: () => kept.destroy() };

  async function find<Value>(path: string, schema: z.ZodType<Value>): Promise<Value | undefined> {
    const answer = await ask("GET", path, {});
    const text = await textOf(answer);
    if (answer.statusCode === 404) return undefined;
    if (!isFine(answer)) throw refusal("GET", path, answer, text);
    return schema.parse(JSON.parse(text));
  }

  async function send<Value>(
    method: "POST" | "PUT" | "DELETE",
    path: string,
    { json, schema, expected = [] }: SendOptions<Value>,
  ): Promise<Value | undefined> {
    const answer = await ask(method, path, {
      body: json === undefined ? "" : JSON.stringify(json),
    });
    const text = await textOf(answer);
    if (isFine(answer)) return schema.parse(JSON.parse(text));
    if (expected.includes(answer.statusCode ?? 0)) return undefined;
    throw refusal(method, path, answer, text);
  }

  async function* stream(
    path: string,
    signal: AbortSignal,
    onOpen?: () => void,
  ): AsyncIterable<Uint8Array> {
    const answer = await ask("GET", path, { signal });
    if (!isFine(answer)) throw refusal("GET", path, answer, await textOf(answer));
    onOpen?.();
    yield* answer as AsyncIterable<Uint8Array>;
  }

  async function ask(
    method: string,
    path: string,
    { body, signal }: { body?: string; signal?: AbortSignal },
  ): Promise<IncomingMessage> {
    const token = await connection.token?.();
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const sent = request(new URL(path, base), {
      method,
      headers: {
        accept: "application/json, */*",
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body && {
          "content-type": "application/json",
          "content-length": Buffer.byteLength(body),
        }),
      },
      // A connection of its own for what is read for hours.
      ...(signal ? { agent: new Agent({ keepAlive: false, ...tls }), signal } : { agent: kept }),
    });
    sent.once("response", resolve);
    sent.on("error", (cause) => {
      const message = `the Kubernetes API at ${base.host}: ${cause.message}`;
      reject(new Failure("unavailable", message, { cause }));
    });
    const timeoutMs = signal ? SILENCE_MS : TIMEOUT_MS;
    sent.setTimeout(timeoutMs, () => sent.destroy(new Error(`no word within ${timeoutMs} ms`)));
    sent.end(body);
    return promise;
  }
}

/** A path with its query, every value escaped. */
export function kubePath(path: string, query: Readonly<Record<string, string | number>>): string {
  const text = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) text.set(name, String(value));
  return `${path}?${text.toString()}`;
}

/** The HTTP status an API server refused with. */
export function refusedStatus(reason: unknown): number | undefined {
  const status = reason instanceof Failure ? reason.details["status"] : undefined;
  return typeof status === "number" ? status : undefined;
}

function isFine({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 200 && statusCode < 300;
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) {
      answer.destroy();
      throw new Failure("too_large", "the Kubernetes API answers without an end");
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function refusal(method: string, path: string, answer: IncomingMessage, text: string): Failure {
  const status = answer.statusCode ?? 0;
  const what = `${method} ${path.replace(/\?.*/, "")}`;
  const message = `the Kubernetes API refuses ${what}: ${saidIn(text)} (${status})`;
  return new Failure(codeFor(status), message, { details: { status } });
}

function codeFor(status: number) {
  if (status === 401) return "unauthenticated";
  if (status === 403) return "forbidden";
  if (status === 429) return "rate_limited";
  return status >= 500 ? "unavailable" : "invalid";
}

function saidIn(text: string): string {
  try {
    const { message } = JSON.parse(text) as { message?: string };
    return (message ?? "no reason given").slice(0, 1_000);
  } catch {
    return text.trim().slice(0, 1_000) || "no reason given";
  }
}
