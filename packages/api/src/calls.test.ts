import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { CALLS } from "./calls.ts";
import { openApiDocument } from "./openapi.ts";

test("no call that changes something is a GET", () => {
  const reading = /^(get|list|head|watch)/;
  const wrong = CALLS.filter(({ method, name }) => (method === "GET") !== reading.test(name));
  assert.deepEqual(
    wrong.map(({ name }) => name),
    [],
  );
});

test("names and places of calls are unique", () => {
  const names = new Set(CALLS.map(({ name }) => name));
  const places = new Set(CALLS.map(({ method, path }) => `${method} ${path}`));
  assert.deepEqual([names.size, places.size], [CALLS.length, CALLS.length]);
});

test("every path parameter has a schema, and every schema a path parameter", () => {
  for (const { path, params } of CALLS) {
    const inPath = [...path.matchAll(/:([a-z]+)/g)].map(([, name]) => name);
    assert.deepEqual(Object.keys(params.shape).sort(), inPath.sort(), path);
  }
});

test("the OpenAPI document has every call, and says which need no token", () => {
  const document = openApiDocument("0.0.0") as {
    paths: Record<string, Record<string, { operationId: string; security: unknown[] }>>;
  };
  const operations = Object.values(document.paths).flatMap((path) => Object.values(path));

  assert.deepEqual(
    operations.map(({ operationId }) => operationId).sort(),
    CALLS.map(({ name }) => name).sort(),
  );
  assert.deepEqual(
    operations
      .filter(({ security }) => security.length === 0)
      .map(({ operationId }) => operationId),
    ["getInfo", "getReleaseKey", "getTrust", "joinAgent"],
  );
});

test("every moment in an answer is RFC 3339, except in audit records, whose hash is over numbers", () => {
  const moments = CALLS.filter(({ produces, name }) => produces === "json" && !/Audit/.test(name))
    .map(({ name, response }) => ({ name, schema: z.toJSONSchema(response, { io: "output" }) }))
    .flatMap(({ name, schema }) => momentsIn(schema).map((moment) => ({ name, ...moment })));

  assert.ok(moments.length > 10);
  assert.deepEqual(
    moments.filter(({ isTime }) => !isTime).map(({ name, key }) => `${name}: ${key}`),
    [],
  );
});

/** Members whose name says that they are moments, wherever they are in a schema. */
function momentsIn(schema: unknown): { key: string; isTime: boolean }[] {
  if (typeof schema !== "object" || schema === null) return [];
  const properties = "properties" in schema ? (schema.properties as object) : {};
  const own = Object.entries(properties)
    .filter(([key]) => /(At|Since)$|^(at|since)$/.test(key))
    .map(([key, member]) => ({ key, isTime: JSON.stringify(member).includes('"date-time"') }));
  return [...own, ...Object.values(schema).flatMap(momentsIn)];
}
