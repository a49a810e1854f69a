import { setupInstall } from "@exclave/api";
import { InstallName } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { printInstall } from "../../output/install-text.ts";
import { durationOption } from "../../program/arguments.ts";
import { handler, type Invocation } from "../../program/cli.ts";
import { checked } from "../../program/problem.ts";
import { waitForDeploy } from "../../progress/wait-install.ts";

const Options = z.object({
  because: z.string().optional(),
  wait: z.boolean().default(false),
  timeout: z.int(),
});

export function addInstallSetup(install: Command, invocation: Invocation): void {
  install
    .command("setup")
    .description(
      "run the setup of an install's sandbox again; what is there stays, its agent joins anew",
    )
    .argument("<name>")
    .option("--because <reason>", "why, for the record")
    .option("--wait", "wait until it is healthy")
    .addOption(durationOption("--timeout <duration>", "how long to wait", "10m"))
    .action(
      handler(invocation, Options, async ({ cli, options }, given: string) => {
        const name = checked(InstallName, given, "an install");
        const client = await cli.connect();
        const body = options.because === undefined ? {} : { because: options.because };
        const view = await client.call(setupInstall, { params: { install: name }, body });
        printInstall(
          cli,
          options.wait ? await waitForDeploy(cli, client, name, options.timeout) : view,
        );
      }),
    );
}
