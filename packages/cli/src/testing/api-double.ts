// A server that says what a test wants it to say, in the shapes of the API: requests are read and
// answers are checked by the same schemas the real server uses.

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import type { TestContext } from "node:test";
import { CALLS, type Call } from "@exclave/api";
import { asFailure, Failure } from "@exclave/core";

export interface DoubleRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: unknown;
  readonly traceparent: string | undefined;
}

/** Bytes are text, or a function that writes them as it likes. */
export type Answers = Readonly<Record<string, (request: DoubleRequest) => unknown>>;

export interface ApiDouble {
  readonly url: string;
  readonly token: string;
  /** What was asked, in order, as `name` of the call and what came with it. */
  readonly asked: { readonly call: string; readonly request: DoubleRequest }[];
}

export async function createApiDouble(t: TestContext, answers: Answers): Promise<ApiDouble> {
  const asked: { call: string; request: DoubleRequest }[] = [];
  const token = "test-token";
  const server = createServer((request, response) => {
    handle(request, response).catch((reason: unknown) => problem(response, asFailure(reason)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return { url: `http://127.0.0.1:${address.port}`, token, asked };

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://double");
    const { call, params } = find(request.method ?? "GET", url.pathname);
    if (call.access !== "public" && request.headers.authorization !== `Bearer ${token}`) {
      throw new Failure("unauthenticated", "the token is not known here");
    }
    const answer = answers[call.name];
    if (!answer) throw new Failure("bug", `this test has no answer for ${call.name}`);
    const body = await bodyOf(call, request);
    const given: DoubleRequest = {
      params: call.params.parse(params) as Record<string, string>,
      query: call.query.parse(Object.fromEntries(url.searchParams)),
      body,
      traceparent: request.headers["traceparent"] as string | undefined,
    };
    asked.push({ call: call.name, request: given });
    const value = answer(given);
    if (call.produces === "bytes" && typeof value === "function") {
      response.writeHead(call.status);
      (value as (response: ServerResponse) => void)(response);
      return;
    }
    if (call.produces === "bytes") {
      response.writeHead(call.status).end(value as string);
      return;
    }
    response.writeHead(call.status, { "content-type": "application/json" });
    response.end(JSON.stringify(call.response.parse(value)));
  }
}

function find(method: string, path: string): { call: Call; params: Record<string, string> } {
  for (const call of CALLS) {
    if (call.method !== method) continue;
    const pattern = call.path.replaceAll(/:([a-z]+)/g, "(?<$1>[^/]+)");
    const match = new RegExp(`^${pattern}$`).exec(path);
    if (!match) continue;
    const groups = Object.entries(match.groups ?? {});
    return {
      call,
      params: Object.fromEntries(groups.map(([name, text]) => [name, decodeURIComponent(text)])),
    };
  }
  throw new Failure("not_found", `there is no ${method} ${path}`);
}

async function bodyOf(call: Call, request: IncomingMessage): Promise<unknown> {
  const bytes = await buffer(request);
  if (call.consumes === "bytes") return bytes;
  if (call.consumes === "nothing") return undefined;
  return call.body.parse(JSON.parse(bytes.toString("utf8")));
}

function problem(response: ServerResponse, { code, message, rule, details }: Failure): void {
  response.writeHead(rule.httpStatus, { "content-type": "application/problem+json" });
  const { problems } = details as { problems?: unknown };
  response.end(
    JSON.stringify({
      type: "about:blank",
      title: rule.means,
      status: rule.httpStatus,
      detail: message,
      code,
      ...(problems ? { problems } : {}),
    }),
  );
}
