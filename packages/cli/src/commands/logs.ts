import { runInInstall } from "@exclave/api";
import { ComponentName, InstallName } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { count, durationMs } from "../program/arguments.ts";
import { handler, type Invocation } from "../program/cli.ts";
import { checked } from "../program/problem.ts";
import { endAs, followJob } from "../progress/follow-job.ts";

const Options = z.object({
  follow: z.boolean().default(false),
  tail: z.int(),
  for: z.int().optional(),
});

/** A log request is a job of the install: signed, subject to the customer's policy, on record. */
export function addLogsCommand(program: Command, invocation: Invocation): void {
  program
    .command("logs")
    .description("write a component's log to stdout")
    .argument("<install>")
    .argument("<component>")
    .option("-f, --follow", "go on as it grows, until Ctrl-C")
    .option("--tail <lines>", "how many of the last lines first", count, 200)
    .option("--raw", "with its control sequences, also on a terminal")
    .option("--for <duration>", "follow for this long", durationMs)
    .action(
      handler(invocation, Options, async ({ cli, options }, install: string, component: string) => {
        const client = await cli.connect();
        const job = await client.call(runInInstall, {
          params: {
            install: checked(InstallName, install, "an install"),
            component: checked(ComponentName, component, "a component"),
          },
          body: {
            operation: "logs",
            tailLines: options.tail,
            follow: options.follow || options.for !== undefined,
            ...(options.for === undefined ? {} : { seconds: Math.ceil(options.for / 1_000) }),
          },
        });
        endAs(await followJob(cli, client, job));
      }),
    );
}
