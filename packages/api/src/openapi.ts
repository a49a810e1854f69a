// OpenAPI 3.1, written from the calls: there is no second description to keep in step.

import { unreachable } from "@exclave/core";
import { z } from "zod";
import type { Call } from "./call.ts";
import { CALLS } from "./calls.ts";
import { Problem } from "./resources.ts";

export function openApiDocument(version: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const call of CALLS) {
    const path = call.path.replaceAll(/:([a-z]+)/g, "{$1}");
    paths[path] = { ...paths[path], [call.method.toLowerCase()]: operation(call) };
  }
  return {
    openapi: "3.1.0",
    info: { title: "Exclave", version, license: { name: "Apache-2.0", identifier: "Apache-2.0" } },
    paths,
    components: {
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
      schemas: { Problem: schema(Problem) },
    },
  };
}

function operation(call: Call): Record<string, unknown> {
  return {
    operationId: call.name,
    summary: call.summary,
    description: call.access === "public" ? "Needs no token." : `Needs the role ${call.access}.`,
    ...(call.access === "public" ? { security: [] } : { security: [{ bearer: [] }] }),
    parameters: [...parameters(call.params, "path"), ...parameters(call.query, "query")],
    ...(call.consumes === "json"
      ? {
          requestBody: {
            required: true,
            content: { "application/json": { schema: schema(call.body) } },
          },
        }
      : {}),
    ...(call.consumes === "bytes"
      ? { requestBody: { required: true, content: { "application/octet-stream": {} } } }
      : {}),
    responses: {
      [call.status]: { description: "Done", content: content(call) },
      default: {
        description: "A problem",
        content: {
          "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } },
        },
      },
    },
  };
}

function content(call: Call): Record<string, unknown> {
  switch (call.produces) {
    case "json":
      return { "application/json": { schema: schema(call.response, "output") } };
    case "events":
      return { "text/event-stream": { schema: schema(call.response, "output") } };
    case "bytes":
      return { "application/octet-stream": {} };
    default:
      return unreachable(call.produces);
  }
}

function parameters(shape: z.ZodObject, place: "path" | "query"): unknown[] {
  return Object.entries(shape.shape).map(([name, member]) => ({
    name,
    in: place,
    required: place === "path" || !(member as z.ZodType).safeParse(undefined).success,
    schema: schema(member as z.ZodType),
  }));
}

function schema(value: z.ZodType, io: "input" | "output" = "input"): unknown {
  const { $schema: _, ...rest } = z.toJSONSchema(value, { io, unrepresentable: "any" });
  return rest;
}
