// What a registry's answers and a network's errors mean to us.

import type { IncomingMessage } from "node:http";
import { Failure, type FailureCode } from "@exclave/core";
import { z } from "zod";
import { collect } from "../content/digest.ts";

/** What may be better in a moment. Not what the planner retries: a full disk stays full that long. */
const TRANSIENT: readonly FailureCode[] = ["rate_limited", "unavailable", "timeout"];

export function isTransient(reason: unknown): boolean {
  if (!(reason instanceof Failure)) return false;
  return TRANSIENT.includes(reason.code) && reason.details["isPermanent"] !== true;
}

/** A host that took a connection and then said nothing for the whole of the time it had. */
export function silentFailure(url: URL): Failure {
  return new Failure("unavailable", `${url.host} has been silent for too long`, {
    details: { isSilent: true },
  });
}

export function isSilent(reason: unknown): boolean {
  return reason instanceof Failure && reason.details["isSilent"] === true;
}

/** What a certificate nobody here vouches for, and a port that speaks no TLS, come up as. */
const UNTRUSTED =
  /^(?:CERT_|UNABLE_TO_|ERR_TLS_CERT_|HOSTNAME_MISMATCH|INVALID_CA|SELF_SIGNED_|DEPTH_ZERO_)/;
const NO_TLS = /^(?:EPROTO|ERR_SSL_WRONG_VERSION_NUMBER|ERR_SSL_PACKET_LENGTH_TOO_LONG)$/;

export function unreachableFailure(reason: unknown, url: URL, signal?: AbortSignal): unknown {
  if (reason instanceof Failure) return reason;
  if (signal?.aborted) return signal.reason ?? reason;
  const { code } = reason as NodeJS.ErrnoException;
  // Errors of the system have codes; anything else was thrown by whoever makes the body.
  if (code === undefined) return reason;
  if (UNTRUSTED.test(code)) {
    const message = `the certificate of the registry at ${url.host} is not trusted here: ${code}`;
    return new Failure("unavailable", message, { cause: reason, details: { isPermanent: true } });
  }
  if (NO_TLS.test(code)) {
    const message = `the registry at ${url.host} does not speak TLS: ${code}`;
    return new Failure("unavailable", message, { cause: reason, details: { isPermanent: true } });
  }
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

/** The parts of an answer that say what went wrong, whichever way it was asked for. */
export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Uint8Array;
}

export const REFUSAL_BYTES_MAX = 64 * 1024;
const MESSAGE_CHARACTERS_MAX = 500;

export async function failureOf(
  response: IncomingMessage,
  { method }: { readonly method: string },
  url: URL,
  timeoutMs: number,
): Promise<Failure> {
  const limits = { bytesMax: REFUSAL_BYTES_MAX, timeoutMs };
  const body = await readAll(response, limits).catch(() => new Uint8Array());
  return refusalFailure(
    { status: response.statusCode ?? 0, headers: response.headers, body },
    method,
    url,
  );
}

export async function readAll(
  response: IncomingMessage,
  { bytesMax, timeoutMs }: { readonly bytesMax: number; readonly timeoutMs: number },
): Promise<Uint8Array> {
  const slow = new Failure("unavailable", "the registry's answer came too slowly to be waited for");
  const deadline = setTimeout(() => response.destroy(slow), timeoutMs);
  try {
    return await collect(response, bytesMax);
  } finally {
    clearTimeout(deadline);
  }
}

export function refusalFailure({ status, headers, body }: Refusal, method: string, url: URL) {
  const said = readError(body);
  // The answer to a HEAD has no body, but the challenge says the same.
  const isDenied =
    said.code === "DENIED" || /insufficient_scope/.test(String(headers["www-authenticate"] ?? ""));
  const code = isDenied
    ? "forbidden"
    : (CODES[status] ?? (status >= 500 ? "unavailable" : "invalid"));
  const retryAfterMs = readRetryAfter(headers["retry-after"]?.toString());
  return new Failure(
    code,
    `${url.host} answered ${status} to ${method} ${url.pathname}${said.message ? `: ${said.message}` : ""}`,
    { details: { status, ...(said.code && { registryCode: said.code }), ...retryAfterMs } },
  );
}

const Errors = z.object({
  errors: z.array(z.object({ code: z.string().optional(), message: z.string().optional() })).min(1),
});

function readError(body: Uint8Array): { code?: string | undefined; message?: string | undefined } {
  try {
    const [first] = Errors.parse(JSON.parse(Buffer.from(body).toString("utf8"))).errors;
    const { code, message } = first ?? {};
    return { code, message: message && printable(message) };
  } catch {
    return {};
  }
}

/** One line of text: what a registry says must not move the cursor of whoever reads it. */
function printable(text: string): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\s]+/gu, " ").trim();
  return line.length > MESSAGE_CHARACTERS_MAX ? `${line.slice(0, MESSAGE_CHARACTERS_MAX)}…` : line;
}

export function readRetryAfter(header: string | undefined): { retryAfterMs?: number } {
  if (header === undefined) return {};
  const ms = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
  return Number.isNaN(ms) ? {} : { retryAfterMs: Math.max(ms, 0) };
}
