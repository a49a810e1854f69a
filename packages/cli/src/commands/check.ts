import type { Command } from "commander";
import { z } from "zod";
import { reachableTypes } from "../app/known-plugins.ts";
import { type AppSource, readApp } from "../app/read-app.ts";
import { type Cli, handler, type Invocation } from "../program/cli.ts";
import { CliProblem, placeText } from "../program/problem.ts";

export function addCheckCommand(program: Command, invocation: Invocation): void {
  program
    .command("check")
    .description("check an app's exclave.yaml whole: every problem with file, line and column")
    .argument("[directory]", "where exclave.yaml lies", ".")
    .action(
      handler(invocation, z.object({}), async ({ cli }, directory: string) => {
        const types = await reachableTypes(cli);
        const source = await readApp(directory, { from: invocation.directory, ...types });
        printCheck(cli, source, types !== undefined);
      }),
    );
}

function printCheck(cli: Cli, source: AppSource, withPlugins: boolean): void {
  const { app, file, problems } = source;
  const components = app?.components.map(({ name }) => name) ?? [];
  cli.print({
    value: {
      ok: problems.length === 0,
      file,
      app: app?.app ?? null,
      components,
      withPlugins,
      problems,
    },
    text: () =>
      problems.length > 0
        ? problems.map(placeText).join("\n")
        : `${file} is good: app ${app?.app}, ${components.length} components (${components.join(", ")})`,
    names: () => components,
  });
  refuseProblems(source);
}

export function refuseProblems({ file, problems }: AppSource): void {
  if (problems.length === 0) return;
  const many = problems.length === 1 ? "a problem" : `${problems.length} problems`;
  throw new CliProblem("usage", `${file} has ${many}`);
}
