// One small request with a JSON answer, to token services. It follows no redirects: what it carries
// is meant for the address it was given.

import http from "node:http";
import https from "node:https";
import { Failure } from "@exclave/core";
import { collect } from "../content/digest.ts";
import { trustIn } from "./tls-trust.ts";

export interface JsonRequest {
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as a form, by POST; without it the request is a GET. */
  readonly form?: URLSearchParams;
  readonly ca?: string | Buffer | undefined;
  readonly signal?: AbortSignal | undefined;
}

const TIMEOUT_MS = 30_000;

export async function askJson({ url, headers, form, ca, signal }: JsonRequest): Promise<unknown> {
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
    timeout: TIMEOUT_MS,
    ...trustIn(ca),
    ...(signal ? { signal } : {}),
  });
  request.on("timeout", () => request.destroy(new Error("no answer in time")));
  const answered = new Promise<http.IncomingMessage>((resolve, reject) => {
    request.once("response", resolve);
    request.on("error", (cause) => {
      if (signal?.aborted) reject(signal.reason as Error);
      else reject(new Failure("unavailable", `cannot reach ${url.host}`, { cause }));
    });
  });
  request.end(body);
  const response = await answered;
  const text = Buffer.from(await collect(response, 1024 * 1024)).toString("utf8");
  const status = response.statusCode ?? 0;
  if (status !== 200) {
    const code =
      status >= 500 ? "unavailable" : status === 429 ? "rate_limited" : "unauthenticated";
    throw new Failure(code, `${url.host} gave no token: it answered ${status}`, {
      details: { status },
    });
  }
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new Failure("unavailable", `${url.host} did not answer with JSON`, { cause });
  }
}
