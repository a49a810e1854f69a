// The HTTP side: every call of the API, the few routes beside it, and the vendor's registry under
// the same port.

import { createServer, type Server } from "node:http";
import { CALLS, type Call, openApiDocument } from "@exclave/api";
import { Failure } from "@exclave/core";
import { REGISTRY_HTTP, REGISTRY_IDLE_MS_MAX, type Registry } from "@exclave/oci";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import type { z } from "zod";
import type { ServerContext } from "../context.ts";
import { AGENT_HANDLERS } from "./agents.ts";
import { AUDIT_HANDLERS } from "./audit.ts";
import { authenticate, authorize } from "./authenticate.ts";
import { EVENT_HANDLERS } from "./events.ts";
import { type Handler, problemOf } from "./handler.ts";
import { INSTALL_HANDLERS } from "./installs.ts";
import { JOB_HANDLERS } from "./jobs.ts";
import { addRegistryTokenRoute } from "./registry-token.ts";
import { RELEASE_HANDLERS } from "./releases.ts";
import { addAgentSourceRoute, SOURCE_HANDLERS } from "./sources.ts";
import { TOKEN_HANDLERS } from "./tokens.ts";

const BODY_BYTES_MAX = 2 * 1024 * 1024;

const HANDLERS: readonly Handler[] = [
  ...AGENT_HANDLERS,
  ...AUDIT_HANDLERS,
  ...EVENT_HANDLERS,
  ...INSTALL_HANDLERS,
  ...JOB_HANDLERS,
  ...RELEASE_HANDLERS,
  ...SOURCE_HANDLERS,
  ...TOKEN_HANDLERS,
];

export interface RestServer {
  readonly app: FastifyInstance;
  readonly server: Server;
}

export function createRestServer(
  context: () => ServerContext,
  { registry }: { readonly registry: Pick<Registry, "handle"> },
): RestServer {
  let server: Server | undefined;
  const app = fastify({
    bodyLimit: BODY_BYTES_MAX,
    logger: false,
    forceCloseConnections: true,
    serverFactory: (handle) => {
      server = createServer(REGISTRY_HTTP, (request, response) => {
        const isRegistry = /^\/v2(\/|\?|$)/.test(request.url ?? "");
        if (!isRegistry) return handle(request, response);
        registry.handle(request, response).catch((reason: unknown) => {
          context().log.error({ reason }, "the registry failed");
          response.destroy();
        });
      });
      server.setTimeout(REGISTRY_IDLE_MS_MAX);
      return server;
    },
  });
  // The body of a source is handed on as it comes; everything else is JSON or nothing.
  app.addContentTypeParser("application/octet-stream", (_request, payload, done) =>
    done(null, payload),
  );
  app.setErrorHandler((reason, request, reply) => answerProblem(context(), reason, request, reply));
  app.setNotFoundHandler((request, reply) => {
    const missing = new Failure("not_found", `there is no ${request.method} ${request.url} here`);
    return answerProblem(context(), missing, request, reply);
  });

  for (const call of CALLS) addCall(app, context, call);
  addPlainRoutes(app, context);
  addAgentSourceRoute(app, context);
  addRegistryTokenRoute(app, context);
  if (!server) throw new Failure("bug", "the HTTP server was not made");
  return { app, server };
}

function addCall(app: FastifyInstance, context: () => ServerContext, call: Call): void {
  const found = HANDLERS.find((candidate) => candidate.call.name === call.name);
  if (!found) throw new Failure("bug", `nothing answers ${call.name}`);
  app.route({
    method: call.method,
    url: call.path,
    handler: async (request, reply) => {
      const caller = await authenticate(context(), request.headers.authorization);
      authorize(caller, call.access);
      const answer = await found.handle({
        params: parsePart(call.params, request.params, "path"),
        query: parsePart(call.query, request.query, "query"),
        body:
          call.consumes === "json"
            ? parsePart(call.body, request.body ?? {}, "body")
            : request.body,
        caller,
        context: context(),
        request,
        reply,
      });
      if (call.produces !== "json") return reply;
      return reply.code(call.status).send(call.response.parse(answer));
    },
  });
}

function parsePart<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  part: string,
): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) =>
    [path.join("."), message].filter((text) => text !== "").join(": "),
  );
  throw new Failure("invalid", `the ${part} is wrong: ${faults.join("; ")}`);
}

function addPlainRoutes(app: FastifyInstance, context: () => ServerContext): void {
  app.get("/healthz", async () => ({ ok: true }));
  app.get("/readyz", async () => {
    await context().store.read.audit.head();
    return { ready: true };
  });
  app.get("/v1/openapi.json", async () => openApiDocument(context().version));
}

async function answerProblem(
  { log }: ServerContext,
  reason: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const problem = problemOf(asOurs(reason));
  if (problem.status >= 500) log.error({ reason, url: request.url }, "a request failed");
  if (reply.sent) return;
  await reply.code(problem.status).type("application/problem+json").send(JSON.stringify(problem));
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
