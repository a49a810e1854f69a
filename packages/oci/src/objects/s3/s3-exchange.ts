// One request to the store and its answer, with patience: so many at once, each with an end, retried with backoff
// where the store or the way to it failed. Everything asked of the store can be asked twice.

import http from "node:http";
import https from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { explainS3, type S3Answer, unreachableStore } from "./s3-failure.ts";
import type { S3Settings } from "./s3-settings.ts";
import { encodePath, encodeQuery, sha256, signRequest } from "./sign-request.ts";

export interface S3Request {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  /** Of an object; of the bucket unless given. */
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Answers that are no failure, besides 200 to 299. */
  readonly expect?: readonly number[];
}

export interface S3Patience {
  /** A connection that brings nothing for so long is given up. */
  readonly idleMs: number;
  /** One request, from asking to its last byte. */
  readonly requestMs: number;
  readonly attemptsMax: number;
  /** The first pause; each further one is twice as long, and all of them are jittered. */
  readonly pauseMs: number;
  readonly pauseMsMax: number;
}

export const S3_PATIENCE: S3Patience = {
  idleMs: 10_000,
  requestMs: 60_000,
  attemptsMax: 5,
  pauseMs: 100,
  pauseMsMax: 3_000,
};

/** Further ones wait for their turn. */
export const S3_REQUESTS_MAX = 32;
/** Parts and pieces are smaller; an answer that is not is not from a store. */
const ANSWER_BYTES_MAX = 16 * 1024 * 1024;

export interface S3Exchange {
  send(request: S3Request): Promise<S3Answer>;
  close(): void;
}

export interface S3ExchangeOptions {
  readonly settings: S3Settings;
  readonly patience?: Partial<S3Patience>;
  readonly now?: () => number;
}

export function createS3Exchange({
  settings,
  patience: given = {},
  now = Date.now,
}: S3ExchangeOptions): S3Exchange {
  const { bucket, region, credentials, endpoint } = settings;
  const patience = { ...S3_PATIENCE, ...given };
  const origin = endpoint ?? new URL(`https://${bucket}.s3.${region}.amazonaws.com`);
  const base = endpoint === undefined ? "" : `${endpoint.pathname.replace(/\/$/, "")}/${bucket}`;
  const wire = origin.protocol === "https:" ? https : http;
  const agent = new wire.Agent({ keepAlive: true, maxSockets: S3_REQUESTS_MAX, timeout: 30_000 });

  return { send, close: () => agent.destroy() };

  async function send(request: S3Request): Promise<S3Answer> {
    for (let attempt = 1; ; attempt++) {
      const outcome = await trySend(request);
      if ("answer" in outcome && isExpected(request, outcome.answer)) return outcome.answer;
      const isLast = attempt >= patience.attemptsMax;
      if ("reason" in outcome) {
        if (isLast) throw unreachableStore(settings, origin, outcome.reason);
      } else {
        const failure = explainS3(settings, origin, outcome.answer);
        if (isLast || !failure.mayPass) throw failure.failure;
      }
      await sleep(pauseBefore(attempt));
    }
  }

  /** Full jitter: those who failed together do not come back together. */
  function pauseBefore(attempt: number): number {
    const most = Math.min(patience.pauseMsMax, patience.pauseMs * 2 ** (attempt - 1));
    return most / 2 + Math.random() * (most / 2);
  }

  async function trySend(
    request: S3Request,
  ): Promise<{ readonly answer: S3Answer } | { readonly reason: unknown }> {
    try {
      return { answer: await sendOnce(request) };
    } catch (reason) {
      return { reason };
    }
  }

  function sendOnce({ method, key, query = {}, headers = {}, body }: S3Request): Promise<S3Answer> {
    const path = encodePath(key === undefined ? base || "/" : `${base}/${key}`);
    const signed = signRequest(
      {
        method,
        path,
        query,
        headers: { host: origin.host, ...headers },
        bodyHash: sha256(body ?? ""),
      },
      { credentials, region, service: "s3", now: now() },
    );
    const text = encodeQuery(query);
    return exchange(
      wire,
      origin,
      {
        method,
        path: text === "" ? path : `${path}?${text}`,
        agent,
        headers: { ...signed, "content-length": String(body?.length ?? 0) },
      },
      body,
      patience,
    );
  }
}

function isExpected({ expect = [] }: S3Request, { status, body }: S3Answer): boolean {
  if (expect.includes(status)) return true;
  // To complete an upload can fail after the answer has begun.
  return status >= 200 && status < 300 && !body.subarray(0, 200).includes("<Error>");
}

function exchange(
  wire: typeof http | typeof https,
  origin: URL,
  options: http.RequestOptions,
  body: Uint8Array | undefined,
  { idleMs, requestMs }: S3Patience,
): Promise<S3Answer> {
  return new Promise((resolve, reject) => {
    const request = wire.request(origin, options);
    const fail = (reason: Error) => {
      clearTimeout(deadline);
      request.destroy();
      reject(reason);
    };
    // From when it is asked for: a turn that never comes ends too.
    const deadline = setTimeout(() => fail(new Error("it took too long")), requestMs);
    request.setTimeout(idleMs, () => fail(new Error("it fell silent")));
    request.on("error", fail);
    request.on("response", (response) => {
      const chunks: Buffer[] = [];
      let size = 0;
      response.on("data", (chunk: Buffer) => {
        size += chunk.length;
        if (size > ANSWER_BYTES_MAX) fail(new Error("the answer is too large"));
        else chunks.push(chunk);
      });
      response.on("error", fail);
      // Emitted for a connection that broke in the middle as well.
      response.on("close", () => {
        if (!response.complete) return fail(new Error("the connection broke"));
        clearTimeout(deadline);
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks),
        });
      });
    });
    request.end(body);
  });
}
