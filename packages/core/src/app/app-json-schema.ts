// The JSON Schema of exclave.yaml for editors, made from what the program itself checks with.

import { z } from "zod";
import type { PluginDescriptor } from "../plugin-descriptor.ts";
import { AppDeclaration, COMPONENT_KEYS } from "./app-config.ts";
import { isMapping, type RawMapping } from "./raw-app.ts";

export function appJsonSchema(plugins: readonly PluginDescriptor[] = []): Record<string, unknown> {
  const schema = z.toJSONSchema(AppDeclaration, { io: "input" }) as Record<string, unknown>;
  const properties = schema["properties"] as Record<string, Record<string, unknown>>;
  const { components = {}, ...others } = properties;
  const items = components["items"] as Record<string, unknown>;
  return {
    ...schema,
    title: "exclave.yaml",
    properties: {
      ...others,
      components: {
        ...components,
        items: plugins.length === 0 ? items : withPlugins(items, plugins),
      },
    },
  };
}

/** Each type brings the keys of its plugin; types nobody described take any. */
function withPlugins(items: RawMapping, plugins: readonly PluginDescriptor[]): RawMapping {
  const types = plugins.map(({ type }) => String(type));
  const properties = isMapping(items["properties"]) ? items["properties"] : {};
  const type = isMapping(properties["type"]) ? properties["type"] : {};
  const allOf = plugins.map((plugin) =>
    Object.fromEntries([
      ["if", { properties: { type: { const: plugin.type } }, required: ["type"] }],
      // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema, not a promise.
      ["then", pluginBranch(plugin)],
    ]),
  );
  return { ...items, properties: { ...properties, type: { ...type, examples: types } }, allOf };
}

function pluginBranch({ configSchema, source }: PluginDescriptor): RawMapping {
  const { $schema: _, ...schema } = configSchema;
  const properties = isMapping(schema["properties"]) ? schema["properties"] : {};
  const required = Array.isArray(schema["required"]) ? schema["required"].map(String) : [];
  const ours = Object.fromEntries(COMPONENT_KEYS.map((key) => [key, true]));
  return {
    ...schema,
    properties: { ...mapMembers(properties, orExpression), ...ours },
    required: source === "required" ? [...required, "source"] : required,
    additionalProperties: schema["additionalProperties"] ?? false,
  };
}

const EXPRESSION = { type: "string", pattern: "\\$\\{\\{" };

/** Wherever a plugin wants a number, a vendor may write an expression that will be one. */
function orExpression(schema: unknown): unknown {
  if (!isMapping(schema)) return schema;
  const { properties, items, additionalProperties } = schema;
  const inner = {
    ...schema,
    ...(isMapping(properties) ? { properties: mapMembers(properties, orExpression) } : {}),
    ...(items === undefined ? {} : { items: orExpression(items) }),
    ...(additionalProperties === undefined
      ? {}
      : { additionalProperties: orExpression(additionalProperties) }),
  };
  const isPlainString =
    schema["type"] === "string" && !("pattern" in schema) && !("enum" in schema);
  if (isPlainString || Object.keys(schema).length === 0) return inner;
  const { description, ...rest } = inner as RawMapping;
  const either = { anyOf: [rest, EXPRESSION] };
  return description === undefined ? either : { description, ...either };
}

function mapMembers(members: RawMapping, change: (member: unknown) => unknown): RawMapping {
  return Object.fromEntries(Object.entries(members).map(([key, member]) => [key, change(member)]));
}
