import { EXIT } from "@exclave/core";
import type { Command } from "commander";
import { repeated } from "../program/arguments.ts";
import { createCli, type Invocation } from "../program/cli.ts";
import { programOf, runProgram } from "../program/package-program.ts";
import { CliProblem, ExitWith } from "../program/problem.ts";

const REFERENCES = `
A reference is one of
  host[:port]/repository:tag    host[:port]/repository@sha256:…
                                after http:// or https:// if it says how to speak to it
  oci:DIRECTORY[:name]          a layout on disk
  oci-archive:FILE.tar[:name]   a layout in one file, such as a bundle

Credentials are those of docker, podman and skopeo (config.json, auth.json and their helpers).
`;

/** The work is done by a program of the oci package; what is declared here is what it takes. */
export function addOciCommands(program: Command, invocation: Invocation): void {
  const oci = program
    .command("oci")
    .description("move and look at OCI content: registries, layouts, archives")
    .addHelpText("after", REFERENCES);

  const copy = verb("copy", "copy an artifact with everything it is made of")
    .argument("<source>")
    .argument("<target>");
  const inspect = verb("inspect", "show what a reference stands for").argument("<reference>");
  const push = verb("push", "push files as one artifact")
    .argument("<reference>")
    .argument("<paths...>")
    .option("--artifact-type <type>", "what the artifact says it is");
  const pull = verb("pull", "pull an artifact's files into a directory")
    .argument("<reference>")
    .argument("<directory>");
  const bundle = verb("bundle", "write one or more references as one archive")
    .argument("<file>")
    .argument("<references...>");

  for (const command of [copy, bundle]) {
    command
      .option("--platform <os/architecture>", "only this platform; repeatable", repeated)
      .option("--no-referrers", "leave signatures and the like behind");
  }
  for (const command of [copy, inspect, push, pull, bundle]) {
    command
      .option("--plain-http", "http for every registry that does not say https://")
      .option("--ca <file>", "further certificates (PEM) that vouch for registries")
      .addHelpText("after", REFERENCES)
      .action(async () => runOci(command, invocation));
  }

  function verb(name: string, description: string): Command {
    return oci.command(name).description(description);
  }
}

async function runOci(command: Command, invocation: Invocation): Promise<void> {
  const { format } = createCli(invocation, command);
  const isQuiet = command.optsWithGlobals()["quiet"] === true;
  if (format !== "table" && format !== "json") {
    throw new CliProblem("usage", `exclave oci answers with text or JSON, not ${format}`);
  }
  const { EXCLAVE_TOKEN: _, ...environment } = invocation.environment;
  const code = await runProgram(invocation, {
    program: programOf("@exclave/oci", "programs/oci-main"),
    args: [
      command.name(),
      ...optionArguments(command),
      ...(format === "json" ? ["-o", "json"] : []),
      ...(isQuiet ? ["--quiet"] : []),
      "--",
      ...command.args,
    ],
    environment,
  });
  // Stopped before it could say so itself, it has the system's number for that.
  if (code !== 0) throw new ExitWith(invocation.signal.aborted ? EXIT.interrupted : code);
}

/** The options as they were given, for a program that takes the same ones. */
export function optionArguments(command: Command): string[] {
  return command.options.flatMap((option) => {
    const name = option.attributeName();
    if (option.long === undefined || command.getOptionValueSource(name) !== "cli") return [];
    const long = option.long;
    const value: unknown = command.getOptionValue(name);
    if (typeof value === "boolean") return [long];
    return [value].flat().flatMap((one) => [long, String(one)]);
  });
}
