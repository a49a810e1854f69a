// The settings of this machine: which servers there are and which one is meant by default. One file,
// readable by its owner alone, because a context may hold a token.

import { readIfThere, writeDurably } from "@exclave/machine";
import { parse, stringify } from "yaml";
import { z } from "zod";
import { CliProblem } from "../program/problem.ts";
import type { Home } from "./home.ts";

export const Context = z.strictObject({
  server: z.url(),
  tokenFile: z.string().optional(),
  token: z.string().optional(),
  /** Certificates in PEM that vouch for the server, instead of the machine's roots. */
  caFile: z.string().optional(),
});
export type Context = z.infer<typeof Context>;

export const Settings = z.strictObject({
  current: z.string().optional(),
  contexts: z.record(z.string(), Context).default({}),
});
export type Settings = z.infer<typeof Settings>;

export async function readSettings(home: Home): Promise<Settings> {
  const text = await readIfThere(home.settingsFile);
  if (text === undefined) return { contexts: {} };
  try {
    return Settings.parse(parse(text) ?? {});
  } catch (reason) {
    const because =
      reason instanceof z.ZodError ? z.prettifyError(reason) : (reason as Error).message;
    throw new CliProblem("usage", `${home.settingsFile} cannot be read: ${because}`, {
      hint: "correct the file, or remove it and add the contexts again",
      cause: reason,
    });
  }
}

export async function writeSettings(home: Home, settings: Settings): Promise<void> {
  await writeDurably(home.settingsFile, stringify(settings));
}

/** Settings with one more context; the first one becomes the current one. */
export function withContext(settings: Settings, name: string, context: Context): Settings {
  return {
    current: settings.current ?? name,
    contexts: { ...settings.contexts, [name]: context },
  };
}
