// One small request with a JSON answer, to token services. It follows no redirects: what it carries
// is meant for the address it was given.

import http from "node:http";
import https from "node:https";
import { Failure } from "@exclave/core";
import { collect } from "../../content/digest.ts";
import { readRetryAfter } from "../registry-failure.ts";
import { trustIn } from "../tls-trust.ts";

export interface JsonRequest {
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as a form, by POST; without it the request is a GET. */
  readonly form?: URLSearchParams;
  readonly ca?: string | Buffer | undefined;
  readonly signal?: AbortSignal | undefined;
  /** From the connection's beginning to the answer's last byte. */
  readonly timeoutMs?: number;
}

const TIMEOUT_MS = 30_000;
const ANSWER_BYTES_MAX = 1024 * 1024;

export async function askJson(json: JsonRequest): Promise<unknown> {
  const { url, headers, form, ca, signal, timeoutMs = TIMEOUT_MS } = json;
  const body = form?.toString();
  const client = url.protocol === "https:" ? https : http;
  const request = client.request(url, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      accept: "application/json",
      ...(body !== undefined && { "content-type": "application/x-www-form-urlencoded" }),
      ...headers,
    },
    agent: false,
    ...trustIn(ca),
    ...(signal ? { signal } : {}),
  });
  const answered = new Promise<http.IncomingMessage>((resolve, reject) => {
    request.once("response", resolve);
    request.on("error", (cause) => {
      if (signal?.aborted) reject(signal.reason as Error);
      else reject(new Failure("unavailable", `cannot reach ${url.host}`, { cause }));
    });
  });
  request.end(body);
  // Of the whole: a body that comes a byte at a time is never silent.
  const deadline = setTimeout(() => request.destroy(new Error("no answer in time")), timeoutMs);
  try {
    return await readAnswer(url, await answered);
  } catch (reason) {
    if (signal?.aborted) throw signal.reason;
    if (reason instanceof Failure) throw reason;
    throw new Failure("unavailable", `${url.host} broke off its answer`, { cause: reason });
  } finally {
    clearTimeout(deadline);
  }
}

async function readAnswer(url: URL, response: http.IncomingMessage): Promise<unknown> {
  const text = Buffer.from(await collect(response, ANSWER_BYTES_MAX)).toString("utf8");
  const status = response.statusCode ?? 0;
  if (status !== 200) {
    const code =
      status >= 500 ? "unavailable" : status === 429 ? "rate_limited" : "unauthenticated";
    throw new Failure(code, `${url.host} gave no token: it answered ${status}`, {
      details: { status, ...readRetryAfter(response.headers["retry-after"]) },
    });
  }
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new Failure("unavailable", `${url.host} did not answer with JSON`, { cause });
  }
}
