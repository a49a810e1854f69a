// A typed client for the calls. It uses the platform's fetch, so it works in a browser as in Node.

import { Failure } from "@exclave/core";
import type { z } from "zod";
import type { Call } from "./call.ts";
import { LiveEvent, Problem } from "./resources.ts";
import { createSystemTimers, type Timers } from "./timers.ts";

/** Reads that were refused with 429 are retried when the server says, so often and after so long at most. */
const RETRIES_MAX = 5;
const RETRY_AFTER_MS_MAX = 30_000;

export interface ClientOptions {
  readonly url: string;
  readonly token?: string;
  /** The trace that every call is part of, in the form of W3C trace context. */
  readonly traceparent?: string | undefined;
  /** The system's unless given. */
  readonly timers?: Pick<Timers, "sleep">;
  /** The platform's unless given; one that pins a certificate authority, for example. */
  readonly fetch?: (url: string, init: ClientRequest) => Promise<Response>;
}

export interface ClientRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | AsyncIterable<Uint8Array>;
  readonly signal?: AbortSignal;
}

export interface CallInput<C extends Call> {
  readonly params?: z.input<C["params"]>;
  readonly query?: z.input<C["query"]>;
  readonly body?: z.input<C["body"]>;
  readonly signal?: AbortSignal;
}

export interface Client {
  readonly url: string;
  call<C extends Call>(call: C, input?: CallInput<C>): Promise<z.output<C["response"]>>;
  /** The raw bytes of a call that produces bytes, as they come. */
  bytes<C extends Call>(call: C, input?: CallInput<C>): AsyncIterable<Uint8Array>;
  events<C extends Call>(call: C, input?: CallInput<C>): AsyncIterable<LiveEvent>;
}

export function createClient(options: ClientOptions): Client {
  const { url, token, traceparent, timers = createSystemTimers() } = options;
  const ask = options.fetch ?? platformFetch;
  const base = url.replace(/\/+$/, "");
  return {
    url: base,
    async call(call, input = {}) {
      const text = await textOf(await request(call, input), input.signal);
      return call.response.parse(JSON.parse(text)) as never;
    },
    async *bytes(call, input = {}) {
      yield* bodyOf(await request(call, input), input.signal);
    },
    async *events(call, input = {}) {
      const response = await request(call, input);
      const decoder = new TextDecoder();
      let rest = "";
      for await (const chunk of bodyOf(response, input.signal)) {
        rest += decoder.decode(chunk, { stream: true });
        const blocks = rest.split("\n\n");
        rest = blocks.pop() ?? "";
        for (const block of blocks) {
          const data = block.split("\n").find((line) => line.startsWith("data: "));
          if (data) yield LiveEvent.parse(JSON.parse(data.slice(6)));
        }
      }
    },
  };

  /** A connection that breaks while the answer is read is the same as one that was never made. */
  async function* bodyOf(
    response: Response,
    signal: AbortSignal | undefined,
  ): AsyncIterable<Uint8Array> {
    try {
      if (response.body) yield* response.body;
    } catch (reason) {
      throw broken(reason, signal);
    }
  }

  async function textOf(response: Response, signal: AbortSignal | undefined): Promise<string> {
    return response.text().catch((reason: unknown) => {
      throw broken(reason, signal);
    });
  }

  function broken(reason: unknown, signal: AbortSignal | undefined): unknown {
    if (signal?.aborted) return signal.reason;
    return new Failure("unavailable", `the connection to the server at ${base} broke`, {
      cause: reason,
    });
  }

  async function request<C extends Call>(call: C, input: CallInput<C>): Promise<Response> {
    for (let retries = 0; ; retries++) {
      const response = await send(call, input);
      if (response.ok) return response;
      const isRetried = response.status === 429 && call.method === "GET" && retries < RETRIES_MAX;
      if (!isRetried) throw await problemOf(response);
      await response.body?.cancel();
      await timers.sleep(retryAfterMs(response), input.signal);
    }
  }

  async function send<C extends Call>(call: C, input: CallInput<C>): Promise<Response> {
    const target = base + fillPath(call.path, input.params) + queryText(input.query);
    try {
      return await ask(target, {
        method: call.method,
        headers: {
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(traceparent === undefined ? {} : { traceparent }),
          ...(call.consumes === "json" ? { "content-type": "application/json" } : {}),
          ...(call.consumes === "bytes" ? { "content-type": "application/octet-stream" } : {}),
        },
        ...(call.consumes === "json" ? { body: JSON.stringify(input.body ?? {}) } : {}),
        ...(call.consumes === "bytes" ? { body: input.body as AsyncIterable<Uint8Array> } : {}),
        ...(input.signal ? { signal: input.signal } : {}),
      });
    } catch (reason) {
      if (input.signal?.aborted) throw input.signal.reason;
      if (reason instanceof Failure) throw reason;
      throw new Failure("unavailable", `cannot reach the server at ${base}`, { cause: reason });
    }
  }
}

function platformFetch(url: string, { body, ...init }: ClientRequest): Promise<Response> {
  const isStream = body !== undefined && typeof body !== "string";
  return fetch(url, { ...init, body: body as never, ...(isStream && { duplex: "half" }) } as never);
}

/** Spread a little, so that those who were refused together do not come back together. */
function retryAfterMs({ headers }: Response): number {
  const seconds = Number(headers.get("retry-after") ?? 1);
  const ms = Number.isFinite(seconds) && seconds > 0 ? seconds * 1_000 : 1_000;
  return Math.min(RETRY_AFTER_MS_MAX, ms) + Math.random() * 250;
}

async function problemOf(response: Response): Promise<Failure> {
  const text = await response.text();
  try {
    const problem = Problem.parse(JSON.parse(text));
    const details = problem.problems ? { problems: problem.problems } : {};
    return new Failure(problem.code, problem.detail, { details });
  } catch (reason) {
    return new Failure("unavailable", `the server answered ${response.status}`, { cause: reason });
  }
}

function fillPath(path: string, params: unknown): string {
  const values = (params ?? {}) as Record<string, unknown>;
  return path.replaceAll(/:([a-z]+)/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Failure("bug", `${path} needs ${name}`);
    return encodeURIComponent(typeof value === "string" ? value : JSON.stringify(value));
  });
}

function queryText(query: unknown): string {
  const pairs = Object.entries((query ?? {}) as Record<string, unknown>).filter(
    ([, value]) => value !== undefined,
  );
  if (pairs.length === 0) return "";
  const search = new URLSearchParams();
  for (const [key, value] of pairs) search.set(key, String(value));
  return `?${search.toString()}`;
}
