// One attempt at a request to a registry: with proof of who asks, and redirects followed as far as they are allowed.

import type { IncomingMessage } from "node:http";
import { Failure } from "@exclave/core";
import type { RegistryProofs } from "./auth/registry-proof.ts";
import { createHttpExchanges } from "./http-exchange.ts";
import { failureOf } from "./registry-failure.ts";
import { followLocation } from "./registry-origins.ts";
import type { Pace } from "./registry-pace.ts";
import type { Pour } from "./send-body.ts";
import type { SocketRoute } from "./socket-route.ts";

export interface RegistryRequest {
  readonly method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** A path of this registry, or an address it gave us. */
  readonly path: string | URL;
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array | Pour;
  /** Statuses that are an answer; any other one is a failure. */
  readonly accept: readonly number[];
  /** Fewer tries than usual. */
  readonly attemptsMax?: number;
  readonly signal?: AbortSignal | undefined;
}

/** A registry as requests to it know it. */
export interface RegistryPlace {
  readonly base: URL;
  /** Where else it may send us; anywhere without a list. */
  readonly origins: readonly string[] | undefined;
  readonly proofs: RegistryProofs;
  readonly pace: Pace;
}

export interface RegistryAttempts {
  /** An answer of an accepted status; fails with what any other one means. */
  send(request: RegistryRequest): Promise<IncomingMessage>;
  close(): void;
}

export interface RegistryAttemptsOptions extends RegistryPlace {
  readonly ca?: string | Buffer | undefined;
  readonly route?: SocketRoute | undefined;
  readonly idleTimeoutMs: number;
  readonly connectTimeoutMs: number;
}

export const REDIRECTS_MAX = 5;

export function createRegistryAttempts(options: RegistryAttemptsOptions): RegistryAttempts {
  const { base, proofs, pace, idleTimeoutMs } = options;
  const exchanges = createHttpExchanges(options);
  return { send, close: () => exchanges.close() };

  async function send(request: RegistryRequest): Promise<IncomingMessage> {
    const { method, body, signal } = request;
    let url = new URL(request.path, base);
    let isChallenged = false;
    for (let redirects = 0; redirects <= REDIRECTS_MAX; ) {
      const proof = await proofs.of(url, method);
      const headers = { ...request.headers, ...proof };
      await pace.beforeRequest(signal);
      const response = await exchanges.exchange(url, { method, headers, body, signal });
      const status = response.statusCode ?? 0;
      if (request.accept.includes(status)) return response;
      const refused = { response, url, method, proof, signal };
      if (status === 401 && !isChallenged && (await proofs.renew(refused))) {
        isChallenged = true;
        response.resume();
        // What was poured out is gone; with the new token the caller can begin again.
        if (typeof body === "function") throw outdatedToken(url);
        continue;
      }
      const isRead = method === "GET" || method === "HEAD";
      if (!isRead || status < 300 || status >= 400 || !response.headers.location) {
        throw await failureOf(response, request, url, idleTimeoutMs);
      }
      response.resume();
      url = followLocation(response.headers.location, url, options);
      redirects++;
    }
    throw new Failure("unavailable", `${base.host} redirects in circles`);
  }
}

function outdatedToken(url: URL): Failure {
  return new Failure("unavailable", `${url.host} wanted a new token in the middle of an upload`);
}
