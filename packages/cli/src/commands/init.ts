import { chmod, mkdir, readdir, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { AppName, appJsonSchema } from "@exclave/core";
import { isMissing } from "@exclave/machine";
import type { Command } from "commander";
import { z } from "zod";
import { reachableTypes } from "../app/known-plugins.ts";
import { scaffold } from "../app/scaffold.ts";
import { handler, type Invocation } from "../program/cli.ts";
import { CliProblem, checked } from "../program/problem.ts";

export function addInitCommand(program: Command, invocation: Invocation): void {
  program
    .command("init")
    .description("write a small working app to start from")
    .argument("[directory]", "an empty or new directory", ".")
    .option("--app <name>", "the app's name; the directory's otherwise")
    .action(
      handler(
        invocation,
        z.object({ app: z.string().optional() }),
        async ({ cli, options }, directory: string) => {
          const target = resolve(invocation.directory, directory);
          await refuseFull(target);
          const app = checked(AppName, options.app ?? appNameFrom(basename(target)), "an app");
          const files = scaffold(app, appJsonSchema((await reachableTypes(cli))?.plugins));
          for (const { path, text, isProgram } of files) {
            await mkdir(dirname(join(target, path)), { recursive: true });
            await writeFile(join(target, path), text, { flag: "wx" });
            if (isProgram) await chmod(join(target, path), 0o755);
          }
          cli.say(
            `next: exclave check ${directory} && exclave release ${directory} --channel stable`,
          );
          cli.print({
            value: { app, directory: target, files: files.map(({ path }) => path) },
            text: () => files.map(({ path }) => `wrote ${join(directory, path)}`).join("\n"),
            names: () => files.map(({ path }) => path),
          });
        },
      ),
    );
}

async function refuseFull(directory: string): Promise<void> {
  const there = await readdir(directory).catch((reason: unknown) => {
    if (isMissing(reason)) return [];
    throw reason;
  });
  if (there.some((name) => !name.startsWith("."))) {
    throw new CliProblem("conflict", `${directory} is not empty`, {
      hint: "name a new directory: exclave init my-app",
    });
  }
}

function appNameFrom(directory: string): string {
  const name = directory
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^[^a-z]+|-+$/g, "");
  return name.slice(0, 40) || "app";
}
