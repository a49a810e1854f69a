import { join } from "node:path";
import { createInstall } from "@exclave/api";
import { AppName, ChannelName, InstallName } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { durationOption, inputs } from "../arguments.ts";
import { handler, type World } from "../cli.ts";
import { readUpRecord } from "../connection.ts";
import { printInstall } from "../install-text.ts";
import { checked } from "../problem.ts";
import { waitForDeploy } from "../wait-install.ts";

const Options = z.object({
  app: z.string(),
  channel: z.string(),
  sandbox: z.string(),
  directory: z.string().optional(),
  input: z.record(z.string(), z.unknown()).default({}),
  wait: z.boolean().default(false),
  timeout: z.int(),
});

export function addInstallCreate(install: Command, world: World): void {
  install
    .command("create")
    .description("create an install and set it up; the channel's release is deployed by itself")
    .argument("<name>")
    .requiredOption("--app <app>", "which app")
    .option("--channel <name>", "the channel it follows", "stable")
    .option("--sandbox <name>", "the base it stands on", "local")
    .option("--directory <path>", "where the local sandbox puts it")
    .option(
      "--input <name=value>",
      "a value the app asks for (repeatable; a number that is text in quotes)",
      inputs,
    )
    .option("--wait", "wait until it is healthy")
    .addOption(durationOption("--timeout <duration>", "how long to wait", "10m"))
    .action(
      handler(world, Options, async ({ cli, options }, given: string) => {
        const name = checked(InstallName, given, "an install");
        const client = await cli.connect();
        const up = await readUpRecord(cli.home);
        // A server that `exclave up` runs here keeps its installs beside it, where `up` finds them.
        const here = up?.url === client.url ? join(cli.home.installsDirectory, name) : undefined;
        const directory = options.directory ?? (options.sandbox === "local" ? here : undefined);
        const created = await client.call(createInstall, {
          body: {
            name,
            app: checked(AppName, options.app, "an app"),
            channel: checked(ChannelName, options.channel, "a channel"),
            sandbox: options.sandbox,
            inputs: options.input,
            ...(directory === undefined ? {} : { directory }),
          },
        });
        printInstall(
          cli,
          options.wait ? await waitForDeploy(cli, client, name, options.timeout) : created,
        );
      }),
    );
}
