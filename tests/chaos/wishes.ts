// What a vendor asks for in a round, as commands, and how one sees that it came true.

import { join } from "node:path";
import type { InstallView } from "@exclave/api";
import { unreachable } from "@exclave/core";
import type { CommandResult, World } from "../e2e/testing/harness.ts";
import { APP, writeApp } from "./app.ts";
import type { Wish } from "./scenarios.ts";

/** What the main install is wanted to be, over all rounds. */
export interface Wanted {
  colour: string;
  title: string;
}

export interface Asked {
  /** What is struck: the install the wish is about. */
  readonly install: string;
  /** The command a person would run; run once more where it said that it failed. */
  readonly ask: () => Promise<CommandResult>;
  /** What is still missing, in words; undefined when it came true. */
  readonly missing: (seen: readonly InstallView[]) => Promise<string | undefined>;
}

export interface WishOptions {
  readonly world: World;
  readonly number: number;
  readonly wanted: Wanted;
  /** Installs beside the main one. */
  readonly extras: readonly string[];
}

export const MAIN = "acme";

export function makeWish(wish: Wish, options: WishOptions): Asked {
  const { world, number, wanted, extras } = options;
  const main = (ask: Asked["ask"]): Asked => ({
    install: MAIN,
    ask,
    missing: (seen) => missingOfMain(seen, wanted),
  });
  let asked = 0;
  switch (wish) {
    case "release": {
      wanted.colour = `colour-${number}`;
      const directory = writeApp(world, wanted.colour);
      return main(() => world.attempt("release", directory, "--channel", "stable", "--wait"));
    }
    case "deploy":
      wanted.title = `title-${number}`;
      return main(() =>
        world.attempt("install", "deploy", MAIN, "--input", `title=${wanted.title}`, "--wait"),
      );
    case "exec":
      return main(() => {
        // Another line when it is asked again: the first one may not appear twice.
        const line = `exec ${number}.${asked++}`;
        const script = `echo "${line}" >> ${world.place}/trail.txt; sleep 2; echo done`;
        return world.attempt("exec", MAIN, "web", "--", "sh", "-c", script);
      });
    case "logs":
      return main(() => world.attempt("logs", MAIN, "web", "--tail", "20"));
    case "setup":
      return main(() => world.attempt("install", "setup", MAIN, "--wait"));
    case "create": {
      const name = `extra-${number}`;
      const args = ["--app", APP, "--input", "title=Extra"];
      return {
        install: name,
        ask: () => create(world, name, args),
        missing: async (seen) =>
          seen.some((install) => install.name === name) ? undefined : `there is no ${name}`,
      };
    }
    case "destroy": {
      const [name] = extras;
      if (name === undefined) return makeWish("create", options);
      return {
        install: name,
        ask: () => world.attempt("install", "destroy", name, "--yes"),
        missing: async (seen) =>
          seen.some((install) => install.name === name && install.phase !== "destroyed")
            ? `${name} is still there`
            : undefined,
      };
    }
    default:
      return unreachable(wish);
  }
}

/** Asked again after an answer that was lost, it is there already: that is what was wanted. */
async function create(world: World, name: string, args: readonly string[]): Promise<CommandResult> {
  const result = await world.attempt("install", "create", name, ...args);
  const isThere = result.code !== 0 && result.stderr.includes("there is already");
  return isThere ? { ...result, code: 0 } : result;
}

async function missingOfMain(
  seen: readonly InstallView[],
  { colour, title }: Wanted,
): Promise<string | undefined> {
  const main = seen.find(({ name }) => name === MAIN);
  const url = main?.components.find(({ name }) => name === "web")?.outputs["url"];
  if (typeof url !== "string") return "the web component has no address";
  const signal = AbortSignal.timeout(5_000);
  const page = (await (await fetch(url, { signal })).json()) as { colour: string; title: string };
  if (page.colour === colour && page.title === title) return undefined;
  return `the page is ${page.colour}, ${page.title} and not ${colour}, ${title}`;
}

export function homeOf(world: World, install: string): string {
  return join(world.home, "installs", install);
}
