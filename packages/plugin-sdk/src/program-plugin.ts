// A plugin in another language, as its plugin.json describes it: what every plugin says of itself,
// and the program that does the work.

import { Failure, PluginDescriptor } from "@exclave/core";
import { z } from "zod";

export const ProgramPlugin = PluginDescriptor.extend({
  /** The program and its first arguments; a path is meant from the directory of plugin.json. */
  run: z.array(z.string()).min(1),
});
export type ProgramPlugin = z.infer<typeof ProgramPlugin>;

export function parseProgramPlugin(text: string): ProgramPlugin {
  return parse(text, ProgramPlugin);
}

/** The plugin.json beside a bundled plugin.mjs, which needs no program. */
export function parsePluginDescriptor(text: string): PluginDescriptor {
  return parse(text, PluginDescriptor);
}

function parse<Value>(text: string, schema: z.ZodType<Value>): Value {
  const checked = schema.safeParse(parseJson(text));
  if (checked.success) return checked.data;
  const problems = checked.error.issues.map(
    ({ path, message }) => `${path.join(".") || "it"}: ${message}`,
  );
  throw new Failure("invalid", `plugin.json does not describe a plugin: ${problems.join("; ")}`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Failure("invalid", "plugin.json is not JSON", { cause });
  }
}
