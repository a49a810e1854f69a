// An app directory, read and checked whole: exclave.yaml, the vendor's own plugins, and that every
// source it names is there.

import { readFile, stat } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import {
  type AppConfig,
  type Problem as AppProblem,
  PluginDescriptor,
  parseApp,
} from "@exclave/core";
import { isMissing } from "@exclave/machine";
import { parse } from "yaml";
import { z } from "zod";
import { CliProblem, type Place } from "../program/problem.ts";
import type { KnownTypes } from "./known-plugins.ts";

export const APP_FILE = "exclave.yaml";

export interface AppSource {
  readonly directory: string;
  /** As shown to people: relative to where they are. */
  readonly file: string;
  readonly text: string;
  readonly app: AppConfig | undefined;
  /** What the vendor's own plugins say of themselves, by type. */
  readonly ownPlugins: Readonly<Record<string, PluginDescriptor>>;
  readonly problems: readonly Place[];
}

export async function readApp(
  directory: string,
  options: { readonly from: string } & Partial<KnownTypes>,
): Promise<AppSource> {
  const path = resolve(options.from, directory, APP_FILE);
  const file = relative(options.from, path) || APP_FILE;
  const text = await readAppFile(path, file);
  const home = resolve(options.from, directory);

  const own = await readOwnPlugins(text, { home, file });
  const known = options.plugins && [...options.plugins, ...Object.values(own.descriptors)];
  const { sandboxes } = options;
  const parsed = parseApp(text, {
    file,
    ...(known ? { plugins: known } : {}),
    ...(sandboxes ? { sandboxes } : {}),
  });
  // Also where the rest is wrong: one mistake does not hide another.
  const sources = await missingSources(componentSources(text), { home, file, text });
  return {
    directory: home,
    file,
    text,
    app: parsed.app,
    ownPlugins: own.descriptors,
    problems: [...parsed.problems.map(placeOf), ...own.problems, ...sources],
  };
}

/** The directories to upload, by the names the server knows them under. */
export function sourcesOf({ app, directory }: AppSource): Map<string, string> {
  const sources = new Map<string, string>();
  for (const { type, source } of app?.plugins ?? []) {
    sources.set(`plugin:${type}`, resolve(directory, source));
  }
  for (const { name, source } of app?.components ?? []) {
    if (source !== undefined) sources.set(name, resolve(directory, source));
  }
  return sources;
}

async function readAppFile(path: string, file: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (reason) {
    if (!isMissing(reason)) throw reason;
    throw new CliProblem("usage", `there is no ${file}`, {
      hint: "name the app's directory, or write a first app with `exclave init`",
      cause: reason,
    });
  }
}

const NO_SOURCE = { name: "", source: "" };

const OwnPlugins = z.object({
  plugins: z.array(z.object({ type: z.string(), source: z.string() })).catch([]),
});

async function readOwnPlugins(text: string, { home, file }: { home: string; file: string }) {
  const descriptors: Record<string, PluginDescriptor> = {};
  const problems: Place[] = [];
  for (const { type, source } of ownPluginsIn(text)) {
    const path = join(source, "plugin.json");
    const place = { file, ...positionOf(text, source) };
    try {
      const descriptor = PluginDescriptor.parse(
        JSON.parse(await readFile(join(home, path), "utf8")),
      );
      if (descriptor.type === type) descriptors[type] = descriptor;
      else
        problems.push({
          ...place,
          message: `${path} describes the type ${descriptor.type}, not ${type}`,
        });
    } catch (reason) {
      problems.push({ ...place, message: `${path} ${describe(reason)}` });
    }
  }
  return { descriptors, problems };
}

function ownPluginsIn(text: string): { type: string; source: string }[] {
  try {
    return OwnPlugins.safeParse(parse(text)).data?.plugins ?? [];
  } catch {
    // Broken YAML is reported by the parser of the whole file, with its place.
    return [];
  }
}

function describe(reason: unknown): string {
  if (isMissing(reason)) return "is not there";
  if (reason instanceof z.ZodError) {
    const issues = reason.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
    return `is no plugin descriptor: ${issues.join("; ")}`;
  }
  return `cannot be read: ${(reason as Error).message}`;
}

const ComponentSources = z.object({
  components: z
    .array(z.object({ name: z.string(), source: z.string() }).catch(NO_SOURCE))
    .catch([]),
});

function componentSources(text: string): { name: string; source: string }[] {
  try {
    const { components = [] } = ComponentSources.safeParse(parse(text)).data ?? {};
    // A path that leads out of the app's directory is reported by the parser of the whole file.
    return components.filter(({ source }) => source !== "" && !/^\/|(^|\/)\.\.(\/|$)/.test(source));
  } catch {
    return [];
  }
}

async function missingSources(
  components: readonly { name: string; source: string }[],
  { home, file, text }: { home: string; file: string; text: string },
): Promise<Place[]> {
  const problems: Place[] = [];
  for (const { name, source } of components) {
    const found = await stat(resolve(home, source)).catch(() => undefined);
    if (found?.isDirectory()) continue;
    const message = `the source of ${name}, ${source}, is ${found ? "not a directory" : "not there"}`;
    problems.push({ file, ...positionOf(text, source), message });
  }
  return problems;
}

/** Where a value stands in the file, for problems the parser cannot know about. */
function positionOf(text: string, value: string): { line: number; column: number } {
  const lines = text.split("\n");
  const index = lines.findIndex((line) => /\bsource:/.test(line) && line.includes(value));
  if (index === -1) return { line: 1, column: 1 };
  return { line: index + 1, column: (lines[index] ?? "").indexOf(value) + 1 };
}

function placeOf({ file, line, column, message, hint }: AppProblem): Place {
  return { file, line, column, message, hint };
}
