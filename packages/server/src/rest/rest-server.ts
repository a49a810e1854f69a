// The HTTP side: every call of the API, the few routes beside it, and the vendor's registry under
// the same port.

import type { Server } from "node:http";
import type { Server as TlsServer } from "node:https";
import { CALLS, type Call, JSON_BODY_BYTES_MAX, openApiDocument, putSource } from "@exclave/api";
import { Failure } from "@exclave/core";
import {
  createLimitedServer,
  LISTEN_LIMITS,
  type ListenLimits,
  type ListenTls,
  type Registry,
} from "@exclave/oci";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { noteRefusal, retryAfterSeconds } from "../access/note-refusal.ts";
import type { ServerContext } from "../context.ts";
import type { TracedCall } from "../traces/traces.ts";
import { type Admission, callerOf, createAdmission } from "./admission.ts";
import { AGENT_HANDLERS } from "./agents.ts";
import { AUDIT_HANDLERS } from "./audit.ts";
import { AUTHORITY_HANDLERS } from "./authority.ts";
import { EVENT_HANDLERS } from "./events.ts";
import { type Handler, problemOf } from "./handler.ts";
import { INSTALL_HANDLERS } from "./installs.ts";
import { JOB_HANDLERS } from "./jobs.ts";
import { KEY_HANDLERS } from "./keys.ts";
import { METRICS_HANDLERS } from "./metrics.ts";
import { parseBody, parsePart } from "./parse-part.ts";
import { addRegistryTokenRoute } from "./registry-token.ts";
import { RELEASE_HANDLERS } from "./releases.ts";
import { addAgentSourceRoute, SOURCE_HANDLERS } from "./sources.ts";
import { TOKEN_HANDLERS } from "./tokens.ts";

const HANDLERS: readonly Handler[] = [
  ...AGENT_HANDLERS,
  ...AUDIT_HANDLERS,
  ...EVENT_HANDLERS,
  ...INSTALL_HANDLERS,
  ...JOB_HANDLERS,
  ...AUTHORITY_HANDLERS,
  ...KEY_HANDLERS,
  ...METRICS_HANDLERS,
  ...RELEASE_HANDLERS,
  ...SOURCE_HANDLERS,
  ...TOKEN_HANDLERS,
];

export interface RestServer {
  readonly app: FastifyInstance;
  readonly server: Server | TlsServer;
}

export function createRestServer(
  context: () => ServerContext,
  {
    registry,
    limits = LISTEN_LIMITS,
    tls,
  }: {
    readonly registry: Pick<Registry, "handle">;
    readonly limits?: ListenLimits;
    /** Plain HTTP without it. */
    readonly tls?: ListenTls | undefined;
  },
): RestServer {
  let server: Server | TlsServer | undefined;
  const app = fastify({
    bodyLimit: JSON_BODY_BYTES_MAX,
    logger: false,
    forceCloseConnections: true,
    serverFactory: (handle) => {
      server = createLimitedServer(
        (request, response) => {
          const isRegistry = /^\/v2(\/|\?|$)/.test(request.url ?? "");
          if (!isRegistry) return handle(request, response);
          registry.handle(request, response).catch((reason: unknown) => {
            context().log.error({ reason }, "the registry failed");
            response.destroy();
          });
        },
        limits,
        tls,
      );
      return server;
    },
  });
  // The body of a source is handed on as it comes; everything else is JSON or nothing.
  app.addContentTypeParser("application/octet-stream", (_request, payload, done) =>
    done(null, payload),
  );
  app.addHook("onResponse", async ({ method, routeOptions }, { statusCode, elapsedTime }) => {
    const route = routeOptions.url ?? "none";
    context().metrics.answered({ route, method, status: statusCode, seconds: elapsedTime / 1_000 });
  });
  app.setErrorHandler((reason, request, reply) => answerProblem(context(), reason, request, reply));
  app.setNotFoundHandler((request, reply) => {
    const missing = new Failure("not_found", `there is no ${request.method} ${request.url} here`);
    return answerProblem(context(), missing, request, reply);
  });

  const admit = createAdmission(context);
  for (const call of CALLS) addCall(app, context, admit, call);
  addPlainRoutes(app, context, admit);
  addAgentSourceRoute(app, context, admit);
  addRegistryTokenRoute(app, context, admit);
  if (!server) throw new Failure("bug", "the HTTP server was not made");
  return { app, server };
}

function addCall(
  app: FastifyInstance,
  context: () => ServerContext,
  admission: Admission,
  call: Call,
): void {
  const found = HANDLERS.find((candidate) => candidate.call.name === call.name);
  if (!found) throw new Failure("bug", `nothing answers ${call.name}`);
  app.route({
    method: call.method,
    url: call.path,
    bodyLimit: call.bodyBytesMax ?? JSON_BODY_BYTES_MAX,
    // Before a byte of the body is read: it is nobody's work until it is known whose.
    onRequest: (request, reply) => admission.admit(call, request, reply),
    handler: async (request, reply) => {
      const { caller, charge } = admission.of(request);
      const input = {
        params: parsePart(call.params, request.params, "path"),
        query: parsePart(call.query, request.query, "query"),
        body: call.consumes === "json" ? parseBody(call.body, request.body) : request.body,
        caller,
        charge,
        context: context(),
        request,
        reply,
      };
      // A stream lasts as long as somebody listens, which is nobody's work.
      if (call.produces === "events") return found.handle(input).then(() => reply);
      const answer = await context().traces.during(tracedCall(call, request), () =>
        found.handle(input),
      );
      if (call.produces !== "json") return reply;
      return reply.code(call.status).send(call.response.parse(answer));
    },
  });
}

function tracedCall(call: Call, { headers }: FastifyRequest): TracedCall {
  const { name, path: route, method, status } = call;
  const { traceparent } = headers;
  return {
    name,
    route,
    method,
    traceparent: typeof traceparent === "string" ? traceparent : undefined,
    status: (reason) => (reason === undefined ? status : problemOf(reason).status),
  };
}

function addPlainRoutes(
  app: FastifyInstance,
  context: () => ServerContext,
  admission: Admission,
): void {
  // These two wait for nobody: whoever restarts a server that does not answer must not be led to it by a flood.
  app.get("/healthz", async () => ({ ok: true }));
  app.get("/readyz", async () => {
    await context().store.read.audit.head();
    return { ready: true };
  });
  // Made once, for anybody: it takes tens of milliseconds.
  let document: string | undefined;
  const onRequest = async (request: FastifyRequest, reply: FastifyReply) =>
    void (await admission.enter(request, reply, { isStream: false }));
  app.get("/v1/openapi.json", { onRequest }, async (_request, reply) => {
    document ??= JSON.stringify(openApiDocument(context().version));
    return reply.type("application/json; charset=utf-8").send(document);
  });
}

async function answerProblem(
  context: ServerContext,
  reason: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const problem = problemOf(await noted(context, asOurs(reason), request));
  if (problem.status >= 500) context.log.error({ reason, url: request.url }, "a request failed");
  if (reply.sent) return;
  if (problem.status === 429) void reply.header("retry-after", retryAfterSeconds(reason));
  await reply.code(problem.status).type("application/problem+json").send(JSON.stringify(problem));
}

/** A refusal goes on record, whatever route it comes from. */
async function noted(
  context: ServerContext,
  reason: unknown,
  request: FastifyRequest,
): Promise<unknown> {
  if (!(reason instanceof Failure)) return reason;
  const { headers, routeOptions, body, socket } = request;
  const asked = `${request.method} ${routeOptions.url ?? "elsewhere"}`;
  try {
    return await noteRefusal(context, {
      failure: reason,
      actor: callerOf(request)?.name ?? "nobody",
      secret: presentedSecret(headers.authorization, body),
      address: socket.remoteAddress ?? "unknown",
      asked,
      isUpload: routeOptions.url === putSource.path && request.method === putSource.method,
    });
  } catch (cause) {
    context.log.error({ reason: cause }, "a refusal could not be put on record");
    return reason;
  }
}

/** A bearer token, a password, or the secret of a join. */
function presentedSecret(authorization: string | undefined, body: unknown): string | undefined {
  const [, scheme = "", value] = /^(Bearer|Basic) (\S+)$/i.exec(authorization ?? "") ?? [];
  if (value === undefined) {
    const { secret, refresh_token: refresh } = (body ?? {}) as Record<string, unknown>;
    return [secret, refresh].find((one): one is string => typeof one === "string");
  }
  if (scheme.toLowerCase() === "bearer") return value;
  const text = Buffer.from(value, "base64").toString("utf8");
  return text.slice(text.indexOf(":") + 1);
}

/** Faults the HTTP library finds by itself, said in our codes. */
function asOurs(reason: unknown): unknown {
  const { statusCode, message } = reason as { statusCode?: number; message?: string };
  if (reason instanceof Failure || statusCode === undefined) return reason;
  if (statusCode === 413) return new Failure("too_large", "the body is over the limit");
  if (statusCode === 404) return new Failure("not_found", "there is no such thing here");
  if (statusCode >= 400 && statusCode < 500)
    return new Failure("invalid", message ?? "bad request");
  return reason;
}
