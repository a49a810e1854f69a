// Where the store is: `s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION`. Credentials are never part of it.

import { Failure, refusePlainHttp } from "@exclave/core";
import type { S3Credentials } from "./sign-request.ts";

export interface S3Settings {
  readonly bucket: string;
  /** With a slash at its end, or empty. */
  readonly prefix: string;
  readonly region: string;
  /** Without an address of its own, AWS is asked under the bucket's name. */
  readonly endpoint?: URL | undefined;
  readonly credentials: S3Credentials;
}

export interface S3Environment {
  readonly address: string;
  /** Where the address names none. */
  readonly region?: string | undefined;
  readonly accessKeyId?: string | undefined;
  readonly secretAccessKey?: string | undefined;
  readonly sessionToken?: string | undefined;
  readonly insecureHttp?: boolean | undefined;
}

const FORM = "s3://BUCKET[/PREFIX][?endpoint=URL][&region=REGION]";
const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const PREFIX = /^[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/;

export function readS3Settings(given: S3Environment): S3Settings {
  const url = URL.canParse(given.address) ? new URL(given.address) : undefined;
  // What was given may hold a key in the wrong place: it is not repeated.
  if (url?.protocol !== "s3:") throw new Failure("invalid", `the object store is not ${FORM}`);
  if (url.username !== "" || url.password !== "") {
    throw new Failure(
      "invalid",
      "the object store's address holds credentials: give them as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    );
  }
  const bucket = url.hostname;
  if (!BUCKET.test(bucket)) throw new Failure("invalid", `${bucket} cannot be a bucket's name`);
  const prefix = url.pathname.replace(/^\/+|\/+$/g, "");
  if (prefix !== "" && !PREFIX.test(prefix)) {
    throw new Failure("invalid", `${prefix} cannot be a prefix of the object store`);
  }
  for (const name of url.searchParams.keys()) {
    if (name === "endpoint" || name === "region") continue;
    throw new Failure("invalid", `the object store's address has no ${name}: it is ${FORM}`);
  }
  const endpoint = readEndpoint(url.searchParams.get("endpoint"), given.insecureHttp ?? false);
  const region = url.searchParams.get("region") ?? given.region;
  if (region === undefined && endpoint === undefined) {
    throw new Failure("invalid", "the object store's region is not given: add ?region=REGION");
  }
  return {
    bucket,
    prefix: prefix === "" ? "" : `${prefix}/`,
    region: region ?? "us-east-1",
    endpoint,
    credentials: readCredentials(given),
  };
}

function readEndpoint(text: string | null, insecureHttp: boolean): URL | undefined {
  if (text === null) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== "https:" && url?.protocol !== "http:") {
    throw new Failure("invalid", "the object store's endpoint is not an http or https URL");
  }
  if (url.username !== "" || url.password !== "" || url.search !== "") {
    throw new Failure("invalid", "the object store's endpoint is more than scheme, host and port");
  }
  refusePlainHttp(url.href, insecureHttp);
  return url;
}

function readCredentials(given: S3Environment): S3Credentials {
  const { accessKeyId, secretAccessKey, sessionToken } = given;
  if (!accessKeyId || !secretAccessKey) {
    throw new Failure(
      "invalid",
      "the object store needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the server's environment",
    );
  }
  return { accessKeyId, secretAccessKey, ...(sessionToken ? { sessionToken } : {}) };
}
