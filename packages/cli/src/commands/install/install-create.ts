import { resolve } from "node:path";
import { createInstall } from "@exclave/api";
import { AppName, ChannelName, InstallName } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { printInstall } from "../../output/install-text.ts";
import { durationOption, inputs } from "../../program/arguments.ts";
import { handler, type Invocation } from "../../program/cli.ts";
import { checked } from "../../program/problem.ts";
import { waitForDeploy } from "../../progress/wait-install.ts";

const Options = z.object({
  app: z.string(),
  channel: z.string(),
  sandbox: z.string(),
  sandboxConfig: z.record(z.string(), z.unknown()).default({}),
  directory: z.string().optional(),
  input: z.record(z.string(), z.unknown()).default({}),
  wait: z.boolean().default(false),
  timeout: z.int(),
});

export function addInstallCreate(install: Command, invocation: Invocation): void {
  install
    .command("create")
    .description("create an install and set it up; the channel's release is deployed by itself")
    .argument("<name>")
    .requiredOption("--app <app>", "which app")
    .option("--channel <name>", "the channel it follows", "stable")
    .option("--sandbox <name>", "the base it stands on", "local")
    .option("--sandbox-config <name=value>", "what the sandbox is told (repeatable)", inputs)
    .option("--directory <path>", "where the local sandbox puts it: --sandbox-config directory=…")
    .option("--input <name=value>", "a value the app asks for (repeatable)", inputs)
    .option("--wait", "wait until it is healthy")
    .addOption(durationOption("--timeout <duration>", "how long to wait", "10m"))
    .action(
      handler(invocation, Options, async ({ cli, options }, given: string) => {
        const name = checked(InstallName, given, "an install");
        const client = await cli.connect();
        const directory = options.directory && resolve(invocation.directory, options.directory);
        const created = await client.call(createInstall, {
          body: {
            name,
            app: checked(AppName, options.app, "an app"),
            channel: checked(ChannelName, options.channel, "a channel"),
            sandbox: options.sandbox,
            inputs: options.input,
            sandboxConfig: { ...options.sandboxConfig, ...(directory ? { directory } : {}) },
          },
        });
        printInstall(
          cli,
          options.wait ? await waitForDeploy(cli, client, name, options.timeout) : created,
        );
      }),
    );
}
