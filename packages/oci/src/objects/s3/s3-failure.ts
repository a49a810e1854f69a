// What an answer of the store means, in a sentence for whoever operates the server. To everybody else it is the same:
// what is needed cannot be reached right now.

import type { IncomingHttpHeaders } from "node:http";
import { asFailure, Failure } from "@exclave/core";
import type { S3Settings } from "./s3-settings.ts";
import { elementIn } from "./s3-xml.ts";

export interface S3Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface ExplainedS3 {
  readonly failure: Failure;
  /** Whether asking again may help. */
  readonly mayPass: boolean;
}

type Place = Pick<S3Settings, "bucket">;

const SENTENCES: Readonly<Record<string, (place: string) => string>> = {
  NoSuchBucket: (place) => `there is no ${place}: make it, or name another one`,
  AccessDenied: (place) =>
    `${place} does not let these credentials in: they need to read, write, list and delete in it`,
  InvalidAccessKeyId: (place) => `${place} does not know this access key`,
  SignatureDoesNotMatch: (place) =>
    `${place} refuses the signature: the secret key or the region is another one`,
  ExpiredToken: (place) => `the credentials for ${place} have expired`,
  RequestTimeTooSkewed: (place) =>
    `the clocks of this machine and of ${place} are too far apart: set this one by NTP`,
  QuotaExceeded: (place) => `${place} is full`,
  InsufficientStorage: (place) => `${place} is full`,
};

const PASSING = new Set([408, 429, 500, 502, 503, 504]);

export function explainS3({ bucket }: Place, origin: URL, answer: S3Answer): ExplainedS3 {
  const { status, body } = answer;
  const place = placeOf(bucket, origin);
  const code = codeOf(answer);
  const said = SENTENCES[code]?.(place) ?? `${place} answers ${status} ${code}`.trim();
  const cause = new Error(body.subarray(0, 500).toString("utf8"));
  return {
    failure: new Failure("unavailable", said, { cause, details: { status, code } }),
    mayPass: PASSING.has(status) || code === "SlowDown" || code === "RequestTimeout",
  };
}

export function unreachableStore({ bucket }: Place, origin: URL, cause: unknown): Failure {
  const { message } = asFailure(cause);
  const why = (cause as NodeJS.ErrnoException).code ?? message;
  return new Failure("unavailable", `cannot reach ${placeOf(bucket, origin)}: ${why}`, { cause });
}

/** An answer to HEAD has no words of its own. */
function codeOf({ status, body }: S3Answer): string {
  const said = elementIn(body.toString("utf8"), "Code");
  if (said !== undefined) return /^\w{1,60}$/.test(said) ? said : "";
  if (status === 403) return "AccessDenied";
  return "";
}

function placeOf(bucket: string, origin: URL): string {
  return `bucket ${bucket} at ${origin.host}`;
}
