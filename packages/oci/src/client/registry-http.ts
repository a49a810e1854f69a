// Requests to a registry: with a bounded number of tries, and pauses between them.

import type { IncomingMessage } from "node:http";
import { Failure } from "@exclave/core";
import type { Credentials } from "./auth/credential.ts";
import { createRegistryProofs } from "./auth/registry-proof.ts";
import { CONNECT_TIMEOUT_MS } from "./connect-timeout.ts";
import type { Sink } from "./raw/raw-connection.ts";
import { createRegistryAttempts, type RegistryRequest } from "./registry-attempt.ts";
import { createRegistryDownloads } from "./registry-downloads.ts";
import { isSilent, isTransient, readAll, unreachableFailure } from "./registry-failure.ts";
import { followLocation } from "./registry-origins.ts";
import { createPace, type Pace } from "./registry-pace.ts";

export interface RegistryHttpOptions {
  /** Origin of the registry, such as `https://registry.example.com`. */
  readonly url: string;
  /** A bearer token, or a function that has a fresh one. */
  readonly token?: string | (() => Promise<string>) | undefined;
  /** Asked when the registry wants to know who we are and no token was given. */
  readonly credentials?: Credentials | undefined;
  /**
   * Where else this registry may send us, for content and for tokens: these origins and its own. Without
   * a list it may send us anywhere.
   */
  readonly origins?: readonly string[] | undefined;
  /** Certificates in PEM that vouch for the registry, instead of the usual ones. */
  readonly ca?: string | Buffer | undefined;
  /** A unix socket that leads to the registry, instead of its address. */
  readonly socket?: string | undefined;
  readonly attemptsMax?: number;
  /** Pause before the second try; doubles with each further one. */
  readonly backoffMs?: number;
  readonly idleTimeoutMs?: number;
  readonly connectTimeoutMs?: number;
}

export interface RegistryHttp extends Pick<Pace, "pauseBefore" | "onThrottle"> {
  /** One answer whose body is for the caller to read. Retries, unless the body is poured. */
  send(request: RegistryRequest): Promise<IncomingMessage>;
  /** The same, for answers whose body does not matter. */
  ask(request: RegistryRequest): Promise<IncomingMessage>;
  /** A small body, as a whole within the time a registry may be silent: one that trickles in is never silent. */
  readAll(response: IncomingMessage, bytesMax: number): Promise<Uint8Array>;
  /** One try at a GET, its body poured out; returns the status. */
  download(request: Download, sink: (status: number) => Sink): Promise<number>;
  /** Whether to retry after that many tries and this end of the last one. */
  mayRetry(attempt: number, reason: unknown): boolean;
  resolve(location: string | undefined): URL;
  /** Closes an upload that nobody is going to use: one short try, which may fail. */
  abandon(path: URL): Promise<void>;
  /** Requests sent since the client was made. */
  readonly requests: number;
  readonly attemptsMax: number;
  close(): void;
}

export type Download = Omit<RegistryRequest, "method" | "body">;

/** A host that has nothing to say is not asked as often as one that is in trouble. */
const SILENT_ATTEMPTS_MAX = 2;
const ABANDON_MS_MAX = 3_000;

export function createRegistryHttp(options: RegistryHttpOptions): RegistryHttp {
  const { attemptsMax = 5, backoffMs = 200, idleTimeoutMs = 120_000, ca, origins } = options;
  const { connectTimeoutMs = CONNECT_TIMEOUT_MS } = options;
  const base = new URL(options.url);
  const pace = createPace({ backoffMs });
  const place = { base, origins, proofs: createRegistryProofs({ ...options, base }), pace };
  const route =
    options.socket === undefined ? undefined : { origin: base.origin, socket: options.socket };
  const limits = { ca, route, idleTimeoutMs, connectTimeoutMs };
  const attempts = createRegistryAttempts({ ...place, ...limits });
  const downloads = createRegistryDownloads({ ...place, ...limits });

  return {
    send,
    ask,
    readAll: (response, bytesMax) => readAll(response, { bytesMax, timeoutMs: idleTimeoutMs }),
    download,
    mayRetry,
    pauseBefore: pace.pauseBefore,
    resolve,
    abandon,
    onThrottle: pace.onThrottle,
    attemptsMax,
    close() {
      attempts.close();
      downloads.close();
    },
    get requests() {
      return pace.requests;
    },
  };

  async function send(request: RegistryRequest): Promise<IncomingMessage> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await attempts.send(request);
      } catch (reason) {
        const canRepeat =
          typeof request.body !== "function" && attempt < (request.attemptsMax ?? attemptsMax);
        if (!canRepeat || !mayRetry(attempt, reason)) throw reason;
        await pace.pauseBefore(attempt + 1, reason, request.signal);
      }
    }
  }

  function mayRetry(attempt: number, reason: unknown): boolean {
    const most = isSilent(reason) ? Math.min(SILENT_ATTEMPTS_MAX, attemptsMax) : attemptsMax;
    return isTransient(reason) && attempt < most;
  }

  async function ask(request: RegistryRequest): Promise<IncomingMessage> {
    const response = await send(request);
    response.resume();
    return response;
  }

  async function download(request: Download, sink: (status: number) => Sink): Promise<number> {
    const answer = await downloads.get(request);
    if (answer) {
      await answer.pour(sink(answer.status));
      return answer.status;
    }
    const response = await attempts.send({ ...request, method: "GET" });
    const status = response.statusCode ?? 0;
    const take = sink(status);
    for await (const chunk of bodyOf(response, base, request.signal)) await take(chunk);
    return status;
  }

  async function abandon(path: URL): Promise<void> {
    // Whatever it was for has ended already, and for a better reason than this.
    const signal = AbortSignal.timeout(ABANDON_MS_MAX);
    const accept = [204, 404, 405];
    await ask({ method: "DELETE", path, accept, attemptsMax: 1, signal }).catch(() => undefined);
  }

  function resolve(location: string | undefined): URL {
    if (location === undefined) {
      throw new Failure("unavailable", `${base.host} did not say where the upload goes`);
    }
    return followLocation(location, base, { base, origins });
  }
}

async function* bodyOf(
  response: IncomingMessage,
  url: URL,
  signal: AbortSignal | undefined,
): AsyncIterable<Buffer> {
  try {
    yield* response as AsyncIterable<Buffer>;
  } catch (reason) {
    throw unreachableFailure(reason, url, signal);
  }
}
