import { runInInstall } from "@exclave/api";
import { ComponentName, InstallName } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { durationOption } from "../program/arguments.ts";
import { handler, type Invocation } from "../program/cli.ts";
import { checked } from "../program/problem.ts";
import { endAs, followJob } from "../progress/follow-job.ts";

/** A debug command is a job of the install; this program ends with the command's own exit code. */
export function addExecCommand(program: Command, invocation: Invocation): void {
  program
    .command("exec")
    .description("run a command beside a component and write its output to stdout")
    .argument("<install>")
    .argument("<component>")
    .argument("<command...>", "after `--`: the program and its arguments")
    .option("--raw", "output with its control sequences, also on a terminal")
    .addOption(durationOption("--timeout <duration>", "how long it may run", "1m"))
    .addHelpText("after", "\nExample:\n  exclave exec acme api -- env\n")
    .action(
      handler(
        invocation,
        z.object({ timeout: z.int() }),
        async ({ cli, options }, install: string, component: string, command: string[]) => {
          const client = await cli.connect();
          const job = await client.call(runInInstall, {
            params: {
              install: checked(InstallName, install, "an install"),
              component: checked(ComponentName, component, "a component"),
            },
            body: {
              operation: "exec",
              command,
              timeoutSeconds: Math.ceil(options.timeout / 1_000),
            },
          });
          endAs(await followJob(cli, client, job));
        },
      ),
    );
}
