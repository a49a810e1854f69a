// A REST call as a value: method, path, who may make it, and the schemas of all that goes in and out.
// The server routes from it, the client is typed by it, OpenAPI is written from it.

import type { z } from "zod";

/** public: no token. join: carries its own single-use secret. The rest: a bearer token's role. */
export type Access = "public" | "viewer" | "operator" | "admin";

/** A JSON body is read and checked whole: this many bytes take well under a millisecond. */
export const JSON_BODY_BYTES_MAX = 64 * 1024;

export interface Call<
  Path extends z.ZodObject = z.ZodObject,
  Query extends z.ZodObject = z.ZodObject,
  Body extends z.ZodType = z.ZodType,
  Response extends z.ZodType = z.ZodType,
> {
  readonly name: string;
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** With `:name` for path parameters. */
  readonly path: string;
  readonly access: Access;
  readonly summary: string;
  readonly params: Path;
  readonly query: Query;
  readonly body: Body;
  readonly response: Response;
  /** json unless said otherwise; `events` is an SSE stream of the response schema. */
  readonly produces: "json" | "bytes" | "events";
  readonly consumes: "json" | "bytes" | "nothing";
  /** Of a JSON body; `JSON_BODY_BYTES_MAX` unless said. */
  readonly bodyBytesMax?: number;
  readonly status: number;
}

export function call<
  Path extends z.ZodObject,
  Query extends z.ZodObject,
  Body extends z.ZodType,
  Response extends z.ZodType,
>(value: Call<Path, Query, Body, Response>): Call<Path, Query, Body, Response> {
  return value;
}
