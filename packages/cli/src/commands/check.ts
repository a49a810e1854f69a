import type { Command } from "commander";
import { z } from "zod";
import { type Cli, handler, type World } from "../cli.ts";
import { reachablePlugins } from "../known-plugins.ts";
import { CliProblem, placeText } from "../problem.ts";
import { type AppSource, readApp } from "../read-app.ts";

export function addCheckCommand(program: Command, world: World): void {
  program
    .command("check")
    .description("check an app's exclave.yaml whole: every problem with file, line and column")
    .argument("[directory]", "where exclave.yaml lies", ".")
    .action(
      handler(world, z.object({}), async ({ cli }, directory: string) => {
        const plugins = await reachablePlugins(cli);
        const source = await readApp(directory, { from: world.directory, plugins });
        printCheck(cli, source, plugins !== undefined);
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
