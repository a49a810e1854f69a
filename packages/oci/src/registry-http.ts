// Requests to a registry over plain node:http: one pool of kept-alive connections, bodies that
// stream both ways, and a bounded number of tries. (`fetch` keeps whole blobs in memory.)

import type { EventEmitter } from "node:events";
import http, { type ClientRequest, type IncomingMessage } from "node:http";
import https from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { asFailure, Failure, type FailureCode } from "@exclave/core";
import { collect } from "./digest.ts";

export interface RegistryHttpOptions {
  /** Origin of the registry, such as `https://registry.example.com`. */
  readonly url: string;
  /** A bearer token, or a function that has a fresh one. */
  readonly token?: string | (() => Promise<string>) | undefined;
  readonly attemptsMax?: number;
  /** Pause before the second try; doubles with each further one. */
  readonly backoffMs?: number;
  readonly idleTimeoutMs?: number;
}

export interface RegistryRequest {
  readonly method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** A path of this registry, or an address it gave us. */
  readonly path: string | URL;
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array | AsyncIterable<Uint8Array>;
  /** Statuses that are an answer; any other one is a failure. */
  readonly accept: readonly number[];
  readonly signal?: AbortSignal | undefined;
}

export interface RegistryHttp {
  /** One answer whose body is for the caller to read. Retries, unless the body can be read but once. */
  send(request: RegistryRequest): Promise<IncomingMessage>;
  /** The same, for answers whose body does not matter. */
  ask(request: RegistryRequest): Promise<IncomingMessage>;
  pauseBefore(attempt: number, reason: unknown, signal?: AbortSignal): Promise<void>;
  resolve(location: string | undefined): URL;
  readonly attemptsMax: number;
  close(): void;
}

const REDIRECTS_MAX = 5;
const PAUSE_MS_MAX = 30_000;

export function createRegistryHttp(options: RegistryHttpOptions): RegistryHttp {
  const { token, attemptsMax = 5, backoffMs = 200, idleTimeoutMs = 120_000 } = options;
  const base = new URL(options.url);
  const pool = { keepAlive: true, maxSockets: 32 };
  const agents = { "http:": new http.Agent(pool), "https:": new https.Agent(pool) };

  return { send, ask, pauseBefore, resolve, attemptsMax, close };

  async function send(request: RegistryRequest): Promise<IncomingMessage> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await sendOnce(request);
      } catch (reason) {
        const canRepeat = request.body === undefined || request.body instanceof Uint8Array;
        if (!canRepeat || attempt >= attemptsMax || !isTransient(reason)) throw reason;
        await pauseBefore(attempt + 1, reason, request.signal);
      }
    }
  }

  async function ask(request: RegistryRequest): Promise<IncomingMessage> {
    const response = await send(request);
    response.resume();
    return response;
  }

  async function sendOnce(request: RegistryRequest): Promise<IncomingMessage> {
    let url = new URL(request.path, base);
    for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
      const response = await exchange(url, request);
      const status = response.statusCode ?? 0;
      if (request.accept.includes(status)) return response;
      const isRead = request.method === "GET" || request.method === "HEAD";
      if (!isRead || status < 300 || status >= 400 || !response.headers.location) {
        throw await failureOf(response, request, url);
      }
      response.resume();
      url = new URL(response.headers.location, url);
    }
    throw new Failure("unavailable", `${base.host} redirects in circles`);
  }

  async function exchange(url: URL, request: RegistryRequest): Promise<IncomingMessage> {
    const { method, body, signal } = request;
    const isSecure = url.protocol === "https:";
    const headers: Record<string, string> = { ...request.headers };
    // The token is for this registry, not for the storage it may send us to.
    if (url.origin === base.origin && token !== undefined) {
      headers["authorization"] = `Bearer ${typeof token === "string" ? token : await token()}`;
    }
    if (body instanceof Uint8Array) headers["content-length"] = String(body.length);
    else if (body === undefined && method !== "GET" && method !== "HEAD") {
      headers["content-length"] = "0";
    }
    signal?.throwIfAborted();
    const outgoing = (isSecure ? https : http).request(url, {
      method,
      headers,
      agent: agents[isSecure ? "https:" : "http:"],
      ...(signal ? { signal } : {}),
    });
    outgoing.setTimeout(idleTimeoutMs, () => {
      outgoing.destroy(new Failure("timeout", `${url.host} has been silent for too long`));
    });
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.once("response", resolve);
      outgoing.on("error", (reason) => reject(unreachableFailure(reason, url, signal)));
    });
    if (body === undefined || body instanceof Uint8Array) {
      outgoing.end(body);
      return answered;
    }
    const sent = sendBody(outgoing, body);
    const isSent = sent.then(() => answered);
    isSent.catch(() => undefined);
    try {
      // Whichever comes first: a source that breaks, or an answer.
      const response = await Promise.race([answered, isSent]);
      // An answer before the end of the body is a refusal; the connection is of no further use.
      if (!outgoing.writableEnded) response.once("end", () => outgoing.destroy());
      return response;
    } catch (reason) {
      outgoing.destroy();
      throw reason;
    }
  }

  async function pauseBefore(attempt: number, reason: unknown, signal?: AbortSignal) {
    const asked = asFailure(reason).details["retryAfterMs"];
    const grown = backoffMs * 2 ** (attempt - 2);
    const pauseMs = Math.min(typeof asked === "number" ? asked : grown, PAUSE_MS_MAX);
    await sleep(pauseMs, undefined, signal ? { signal } : {});
  }

  function resolve(location: string | undefined): URL {
    if (location === undefined) {
      throw new Failure("unavailable", `${base.host} did not say where the upload goes`);
    }
    return new URL(location, base);
  }

  function close(): void {
    agents["http:"].destroy();
    agents["https:"].destroy();
  }
}

export function isTransient(reason: unknown): boolean {
  return reason instanceof Failure && reason.rule.retry === "backoff";
}

export function unreachableFailure(reason: unknown, url: URL, signal?: AbortSignal): unknown {
  if (reason instanceof Failure) return reason;
  if (signal?.aborted) return signal.reason ?? reason;
  const { code } = reason as NodeJS.ErrnoException;
  // Errors of the system have codes; anything else was thrown by whoever makes the body.
  if (code === undefined) return reason;
  return new Failure("unavailable", `cannot reach the registry at ${url.host}: ${code}`, {
    cause: reason,
  });
}

/** Writes as fast as the other side reads; stops without a word once it no longer listens. */
async function sendBody(outgoing: ClientRequest, body: AsyncIterable<Uint8Array>): Promise<void> {
  let isAnswered = false;
  outgoing.once("response", () => {
    isAnswered = true;
  });
  for await (const chunk of body) {
    if (outgoing.destroyed || isAnswered) return;
    if (!outgoing.write(chunk)) await firstOf(outgoing, ["drain", "close", "response"]);
  }
  outgoing.end();
}

function firstOf(emitter: EventEmitter, events: readonly string[]): Promise<void> {
  return new Promise((resolve) => {
    function settle() {
      for (const event of events) emitter.off(event, settle);
      resolve();
    }
    for (const event of events) emitter.on(event, settle);
  });
}

const CODES: Record<number, FailureCode> = {
  400: "invalid",
  401: "unauthenticated",
  403: "forbidden",
  404: "not_found",
  405: "invalid",
  409: "conflict",
  413: "too_large",
  416: "conflict",
  429: "rate_limited",
  507: "disk_full",
};

async function failureOf(
  response: IncomingMessage,
  { method }: RegistryRequest,
  url: URL,
): Promise<Failure> {
  const status = response.statusCode ?? 0;
  const said = await readError(response);
  // The answer to a HEAD has no body, but the challenge says the same.
  const isDenied =
    said.code === "DENIED" || /insufficient_scope/.test(response.headers["www-authenticate"] ?? "");
  const code = isDenied
    ? "forbidden"
    : (CODES[status] ?? (status >= 500 ? "unavailable" : "invalid"));
  const retryAfterMs = readRetryAfter(response.headers["retry-after"]);
  return new Failure(
    code,
    `${url.host} answered ${status} to ${method} ${url.pathname}${said.message ? `: ${said.message}` : ""}`,
    { details: { status, ...(said.code && { registryCode: said.code }), ...retryAfterMs } },
  );
}

async function readError(response: IncomingMessage): Promise<{ code?: string; message?: string }> {
  try {
    const text = Buffer.from(await collect(response, 64 * 1024)).toString("utf8");
    return JSON.parse(text).errors?.[0] ?? {};
  } catch {
    return {};
  }
}

function readRetryAfter(header: string | undefined): { retryAfterMs?: number } {
  if (header === undefined) return {};
  const ms = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
  return Number.isNaN(ms) ? {} : { retryAfterMs: Math.max(ms, 0) };
}
