// A typed client for the calls. It uses the platform's fetch, so it works in a browser as in Node.

import { Failure } from "@exclave/core";
import type { z } from "zod";
import type { Call } from "./call.ts";
import { LiveEvent, Problem } from "./resources.ts";

export interface ClientOptions {
  readonly url: string;
  readonly token?: string;
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

export function createClient({ url, token }: ClientOptions): Client {
  const base = url.replace(/\/+$/, "");
  return {
    url: base,
    async call(call, input = {}) {
      const response = await request(call, input);
      return call.response.parse(await response.json()) as never;
    },
    async *bytes(call, input = {}) {
      const response = await request(call, input);
      if (response.body) yield* response.body;
    },
    async *events(call, input = {}) {
      const response = await request(call, input);
      if (!response.body) return;
      const decoder = new TextDecoder();
      let rest = "";
      for await (const chunk of response.body) {
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

  async function request<C extends Call>(call: C, input: CallInput<C>): Promise<Response> {
    const target = base + fillPath(call.path, input.params) + queryText(input.query);
    let response: Response;
    try {
      response = await fetch(target, {
        method: call.method,
        headers: {
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(call.consumes === "json" ? { "content-type": "application/json" } : {}),
          ...(call.consumes === "bytes" ? { "content-type": "application/octet-stream" } : {}),
        },
        ...(call.consumes === "json" ? { body: JSON.stringify(input.body ?? {}) } : {}),
        ...(call.consumes === "bytes" ? { body: input.body as never, duplex: "half" } : {}),
        ...(input.signal ? { signal: input.signal } : {}),
      });
    } catch (reason) {
      if (input.signal?.aborted) throw input.signal.reason;
      throw new Failure("unavailable", `cannot reach the server at ${base}`, { cause: reason });
    }
    if (!response.ok) throw await problemOf(response);
    return response;
  }
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
