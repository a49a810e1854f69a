// The gate before an engine: gathers what a verdict needs, and hands on what may pass.

import {
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Failure, z } from "@exclave/plugin-sdk";
import { createEngineClient } from "@exclave/plugin-sdk/engine";
import { type Caller, type GateRules, isCallers, isOwnTag, judgeRequest } from "./judge-request.ts";
import { filterLoad } from "./load-filter.ts";

export interface GateOptions extends GateRules {
  /** The engine's own socket. */
  readonly engine: string;
  /** Undefined for whoever cannot say who they are. */
  readonly whoIs: (request: IncomingMessage) => Promise<Caller | undefined>;
  readonly log: (message: string) => void;
}

const BODY_BYTES_MAX = 2 * 1024 * 1024;
const HEADERS_MS = 15_000;
const HEADER_BYTES_MAX = 16 * 1024;
const CONNECTIONS_MAX = 512;
const EXECS_MAX = 1_000;

const Labelled = z.object({
  Id: z.string(),
  Config: z.object({ Labels: z.record(z.string(), z.string()).nullish() }),
});
const Tagged = z.object({ Id: z.string(), RepoTags: z.array(z.string()).nullish() });
const Made = z.object({ Id: z.string() });

export function createGate(options: GateOptions): Server {
  const engine = createEngineClient(options.engine);
  /** Commands that were made through this gate, by id, with the component they run in. */
  const execs = new Map<string, string>();
  // A job is followed for hours, and an archive takes as long as it takes. Without a limit to the whole, the one to
  // the headers has to be said.
  const limits = { requestTimeout: 0, headersTimeout: HEADERS_MS, maxHeaderSize: HEADER_BYTES_MAX };
  const server = createServer(limits, (asked, answer) => {
    handle(asked, answer).catch((reason: unknown) => fail(answer, reason));
  });
  server.maxConnections = CONNECTIONS_MAX;
  return server;

  async function handle(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const caller = await options.whoIs(asked);
    if (!caller) return refuse(answer, 401, "this token does not open the engine");
    const { method = "", url = "" } = asked;
    const isJson = asked.headers["content-type"] === "application/json";
    const text = isJson ? await readBody(asked) : undefined;
    const body = text === undefined || text.length === 0 ? undefined : parse(text);
    const verdict = judgeRequest({ method, url, body }, caller, options);
    switch (verdict.kind) {
      case "refuse":
        options.log(`refused ${caller.kind}: ${verdict.because}`);
        return refuse(answer, 403, verdict.because);
      case "pass":
        return forward(options.engine, asked, answer, url, text);
      case "load": {
        const bytes = filterLoad(asked, (tag) => isOwnTag(tag, options.owner));
        return forward(options.engine, asked, answer, url, bytes);
      }
      case "create":
        if (!(await isOwnImage(verdict.image))) {
          return refuse(answer, 403, `${verdict.image} is no image of this install`);
        }
        return forward(options.engine, asked, answer, url, text);
      case "container": {
        const path = `/containers/${verdict.container}/json`;
        const found = await engine.find(path, Labelled);
        if (!found) return refuse(answer, 404, `there is no container ${verdict.container}`);
        if (!isCallers(found.Config.Labels ?? {}, caller, options)) {
          return refuse(answer, 403, `the container ${verdict.container} is not the caller's`);
        }
        // By id: a name may be somebody else's a moment later.
        const byId = url.replace(/\/containers\/[^/?]+/, `/containers/${found.Id}`);
        if (verdict.rest === "/exec") return makeExec(caller, byId, text, answer);
        // What was not read was not judged: only files of an archive are handed on as they come.
        const bytes = verdict.rest === "/archive" ? asked : undefined;
        return forward(options.engine, asked, answer, byId, bytes);
      }
      case "exec":
        if (caller.kind !== "job" || execs.get(verdict.exec) !== caller.component) {
          return refuse(answer, 403, "this command was not made by the caller");
        }
        return forward(options.engine, asked, answer, url, text);
    }
  }

  async function isOwnImage(image: string): Promise<boolean> {
    const found = await engine.find(`/images/${encodeURIComponent(image)}/json`, Tagged);
    return (found?.RepoTags ?? []).some((tag) => isOwnTag(tag, options.owner));
  }

  async function makeExec(
    caller: Caller,
    url: string,
    text: Buffer | undefined,
    answer: ServerResponse,
  ): Promise<void> {
    const made = await ask(
      options.engine,
      "POST",
      url,
      { "content-type": "application/json" },
      text,
    );
    const body = await readBody(made);
    const id = made.statusCode === 201 ? Made.parse(parse(body)).Id : undefined;
    if (id !== undefined && caller.kind === "job") {
      if (execs.size >= EXECS_MAX) execs.delete(execs.keys().next().value ?? "");
      execs.set(id, caller.component);
    }
    answer.writeHead(made.statusCode ?? 500, { "content-type": "application/json" }).end(body);
  }
}

async function forward(
  socketPath: string,
  asked: IncomingMessage,
  answer: ServerResponse,
  url: string,
  body: Buffer | AsyncIterable<Uint8Array> | undefined,
): Promise<void> {
  const type = asked.headers["content-type"];
  const got = await ask(
    socketPath,
    asked.method ?? "",
    url,
    type === undefined ? {} : { "content-type": type },
    body,
    answer,
  );
  const { "content-type": given, "x-docker-container-path-stat": stat } = got.headers;
  answer.writeHead(got.statusCode ?? 502, {
    ...(given !== undefined && { "content-type": given }),
    ...(stat !== undefined && { "x-docker-container-path-stat": stat }),
  });
  answer.flushHeaders();
  await pipeline(got, answer);
}

function ask(
  socketPath: string,
  method: string,
  path: string,
  headers: Record<string, string>,
  body: Buffer | AsyncIterable<Uint8Array> | undefined,
  until?: ServerResponse,
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const sent = request({
    socketPath,
    method,
    path,
    headers: { host: "engine", ...headers },
    agent: false,
  });
  sent.once("response", resolve);
  sent.on("error", reject);
  // Whoever asked has gone: the engine need not go on.
  until?.once("close", () => sent.destroy());
  if (body === undefined || Buffer.isBuffer(body)) sent.end(body);
  else
    pipeline(Readable.from(body), sent).catch((reason: unknown) => {
      sent.destroy();
      reject(reason);
    });
  return promise;
}

function fail(answer: ServerResponse, reason: unknown): void {
  const message = reason instanceof Error ? reason.message : String(reason);
  if (answer.headersSent) return void answer.destroy();
  const isRefused = reason instanceof Failure && reason.code === "forbidden";
  refuse(answer, isRefused ? 403 : 502, message);
}

function refuse(answer: ServerResponse, status: number, message: string): void {
  answer.writeHead(status, { "content-type": "application/json", connection: "close" });
  answer.end(JSON.stringify({ message: `gate: ${message}` }));
}

async function readBody(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of message) {
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX) throw new Failure("forbidden", "the request is too large");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function parse(text: Buffer): unknown {
  try {
    return JSON.parse(text.toString());
  } catch (cause) {
    throw new Failure("forbidden", "the request is not JSON", { cause });
  }
}
