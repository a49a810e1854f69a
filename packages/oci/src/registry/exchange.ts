// One request and its answer, with what the registry's handlers need of them.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Caller } from "./authorize.ts";
import type { RegistryFiles } from "./files/registry-files.ts";
import type { Quarantine } from "./quarantine.ts";
import type { Uploads } from "./upload/uploads.ts";

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  readonly caller: Caller;
  readonly files: RegistryFiles;
  readonly uploads: Uploads;
  readonly quarantine: Quarantine;
  /** Whether a manifest may come before its blobs. */
  readonly mayLackBlobs: boolean;
}

/** The body. Giving up on it early leaves the connection open, so that there can be an answer. */
export function bodyOf(request: IncomingMessage): AsyncIterable<Uint8Array> {
  return request.iterator({ destroyOnReturn: false });
}

export function answer(
  response: ServerResponse,
  status: number,
  headers: Record<string, string | number> = {},
  body?: string | Uint8Array,
): void {
  const length = body === undefined ? 0 : Buffer.byteLength(body);
  // A HEAD says the length of what GET would bring; 204 has none at all.
  const contentLength = status === 204 ? {} : { "content-length": length };
  response.writeHead(status, { ...contentLength, ...headers });
  response.end(response.req.method === "HEAD" ? undefined : body);
}

export function answerJson(
  response: ServerResponse,
  value: unknown,
  headers: Record<string, string | number> = {},
): void {
  answer(response, 200, { "content-type": "application/json", ...headers }, JSON.stringify(value));
}
