// What is wrong with the components of an app beyond their shape: plugins that are not there or do
// not take what is said, expressions that read what does not exist, and circles.

import { canonicalBytes } from "../encoding/canonical.ts";
import {
  createTemplateChecker,
  type Declarations,
  type TemplateChecker,
  type ValueType,
} from "../expression/check-template.ts";
import { stringsIn, usesOf } from "../expression/references.ts";
import { createGraph, findCycles } from "../graph.ts";
import { COMPONENT_CONFIG_BYTES_MAX, COMPONENTS_MAX, SECRETS_MAX } from "../limits.ts";
import type { PluginDescriptor } from "../plugin-descriptor.ts";
import { closest, suggest } from "../suggest.ts";
import { COMPONENT_KEYS, configOf } from "./app-config.ts";
import { checkJson, unknownKey } from "./json-schema.ts";
import type { Finding, Path } from "./problem.ts";
import { isMapping, type RawItem, rawItems, rawNames } from "./raw-app.ts";

export function checkComponents(
  value: unknown,
  plugins: readonly PluginDescriptor[] | undefined,
): Finding[] {
  const components = rawItems(value, "components");
  const own = rawNames(value, "plugins", "type");
  const byType = new Map((plugins ?? []).map((plugin) => [String(plugin.type), plugin]));
  const types = plugins && [...byType.keys(), ...own];
  const names = components.flatMap(({ name }) => name ?? []);
  const check = createTemplateChecker(declarationsOf(value, components, byType));

  const each = components.flatMap((component) => {
    const plugin = byType.get(String(component.item["type"]));
    return [
      ...checkSize(component),
      ...checkPluginType(component, types),
      ...(plugin ? checkForPlugin(component, plugin) : checkOwnKeys(component)),
      ...checkDependsOn(component, names),
      ...checkExpressions(component, check),
    ];
  });
  return [...checkCounts(value), ...each, ...checkCycles(components)];
}

/** What a job's manifest has no room for is said before anything is built. */
function checkCounts(value: unknown): Finding[] {
  const limits = { components: COMPONENTS_MAX, secrets: SECRETS_MAX };
  return Object.entries(limits).flatMap(([list, max]) =>
    rawItems(value, list).length > max
      ? [{ path: [list], message: `an app has at most ${max} ${list}` }]
      : [],
  );
}

function checkSize({ index, item }: RawItem): Finding[] {
  const bytes = canonicalBytes(configOf(item)).length;
  if (bytes <= COMPONENT_CONFIG_BYTES_MAX) return [];
  const limit = `the configuration of a component has at most ${COMPONENT_CONFIG_BYTES_MAX}`;
  return [{ path: ["components", index], message: `these are ${bytes} bytes: ${limit}` }];
}

function declarationsOf(
  value: unknown,
  components: readonly RawItem[],
  byType: ReadonlyMap<string, PluginDescriptor>,
): Declarations {
  const inputs = rawItems(value, "inputs").flatMap(({ name, item }) =>
    name === undefined ? [] : [[name, inputType(item["type"])] as const],
  );
  const outputs = components.flatMap(({ name, item }) =>
    name === undefined ? [] : [[name, outputTypes(byType.get(String(item["type"])))] as const],
  );
  return {
    inputs: new Map(inputs),
    secrets: new Set(rawNames(value, "secrets")),
    components: new Map(outputs),
  };
}

function inputType(type: unknown): ValueType {
  if (type === undefined) return "string";
  return type === "string" || type === "number" || type === "boolean" ? type : "any";
}

function outputTypes(
  plugin: PluginDescriptor | undefined,
): ReadonlyMap<string, ValueType> | "open" {
  if (!plugin || plugin.outputs === "open") return "open";
  return new Map(Object.entries(plugin.outputs).map(([name, { type }]) => [name, type]));
}

function checkPluginType(
  { index, item }: RawItem,
  types: readonly string[] | undefined,
): Finding[] {
  const type = item["type"];
  if (!types || typeof type !== "string" || types.includes(type)) return [];
  const message = `there is no plugin for type \`${type}\``;
  const hint = suggest(type, types);
  const path = ["components", index, "type"];
  return [hint ? { path, message, hint } : { path, message }];
}

function checkForPlugin({ index, item }: RawItem, plugin: PluginDescriptor): Finding[] {
  const path: Path = ["components", index];
  return [...checkSource(path, item["source"], plugin), ...checkConfig(path, item, plugin)];
}

function checkSource(path: Path, source: unknown, plugin: PluginDescriptor): Finding[] {
  if (plugin.source === "required" && source === undefined) {
    return [
      {
        path,
        message: `\`source\` is missing: a component of type ${plugin.type} is built from one`,
      },
    ];
  }
  if (plugin.source === "none" && source !== undefined) {
    return [{ path, key: "source", message: `a component of type ${plugin.type} has no source` }];
  }
  return [];
}

/**
 * A key that the plugin's schema does not name is a mistake unless the schema says that others may
 * come: at this level a typo would otherwise be silently ignored.
 */
function checkConfig(
  path: Path,
  item: Readonly<Record<string, unknown>>,
  plugin: PluginDescriptor,
): Finding[] {
  const schema = plugin.configSchema;
  const properties = isMapping(schema["properties"])
    ? Object.keys(schema["properties"])
    : undefined;
  const isClosed = properties !== undefined && (schema["additionalProperties"] ?? false) === false;
  const config = configOf(item);
  if (!isClosed) return checkJson(schema, config, path);

  const known = [...COMPONENT_KEYS, ...properties];
  const strays = Object.keys(config).filter((key) => !properties.includes(key));
  return [
    ...checkJson({ ...schema, additionalProperties: true }, config, path),
    ...strays.map((key) => unknownKey(path, key, known)),
  ];
}

/** Without the plugin's word any key may be its own, except one that is surely a misspelt one of ours. */
function checkOwnKeys({ index, item }: RawItem): Finding[] {
  const distinct = ["dependsOn", "statusEverySeconds", "repair"];
  return Object.keys(configOf(item)).flatMap((key) =>
    closest(key, distinct) === undefined ? [] : [unknownKey(["components", index], key, distinct)],
  );
}

function checkDependsOn({ index, item }: RawItem, names: readonly string[]): Finding[] {
  const needs = item["dependsOn"];
  if (!Array.isArray(needs)) return [];
  return needs.flatMap((need: unknown, at): Finding[] => {
    if (typeof need !== "string" || names.includes(need)) return [];
    const path = ["components", index, "dependsOn", at];
    const message = `there is no component \`${need}\``;
    const hint = suggest(need, names);
    return [hint ? { path, message, hint } : { path, message }];
  });
}

function checkExpressions({ index, item }: RawItem, check: TemplateChecker): Finding[] {
  return stringsIn(configOf(item), ["components", index]).flatMap(({ path, text }) =>
    check(text).map(({ offset, ...problem }) => ({ path, letter: offset, ...problem })),
  );
}

function checkCycles(components: readonly RawItem[]): Finding[] {
  const edges = components.flatMap(({ name, item }) => {
    const needs = Array.isArray(item["dependsOn"]) ? item["dependsOn"].map(String) : [];
    return name === undefined
      ? []
      : [[name, [...needs, ...usesOf(configOf(item)).components]] as const];
  });
  return findCycles(createGraph(edges)).map((cycle) => {
    const index = components.find(({ name }) => name === cycle[0])?.index ?? 0;
    const message = `these components need each other, so none can be first: ${cycle.join(" → ")}`;
    return { path: ["components", index, "name"], message };
  });
}
