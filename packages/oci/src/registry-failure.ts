// What a registry's answers and a network's errors mean to us.

import type { IncomingMessage } from "node:http";
import { Failure, type FailureCode } from "@exclave/core";
import { collect } from "./digest.ts";

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

export async function failureOf(
  response: IncomingMessage,
  { method }: { readonly method: string },
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
