import { deployInstall } from "@exclave/api";
import { ChannelName, ComponentName, InstallName } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { printInstall } from "../../output/install-text.ts";
import { durationOption, inputs, names } from "../../program/arguments.ts";
import { handler, type Invocation } from "../../program/cli.ts";
import { checked } from "../../program/problem.ts";
import { waitForDeploy } from "../../progress/wait-install.ts";

const Options = z.object({
  release: z.string().optional(),
  channel: z.string().optional(),
  input: z.record(z.string(), z.unknown()).optional(),
  allowDestroy: z.array(z.string()).default([]),
  component: z.array(z.string()).default([]),
  wait: z.boolean().default(false),
  timeout: z.int(),
});

export function addInstallDeploy(install: Command, invocation: Invocation): void {
  install
    .command("deploy")
    .description("ask for a release, changed inputs, a retry, or the removal of components")
    .argument("<name>")
    .option("--release <release>", "this release instead of the channel's (id or version)")
    .option("--channel <name>", "follow another channel")
    .option("--input <name=value>", "change a value the app asks for (repeatable)", inputs)
    .option("--allow-destroy <components>", "components no longer in the app that may go", names)
    .option("--component <components>", "apply these again as they are, at once", names)
    .option("--wait", "wait until it is healthy")
    .addOption(durationOption("--timeout <duration>", "how long to wait", "10m"))
    .action(
      handler(invocation, Options, async ({ cli, options }, given: string) => {
        const name = checked(InstallName, given, "an install");
        const client = await cli.connect();
        const { release, channel, input, allowDestroy, component } = options;
        const view = await client.call(deployInstall, {
          params: { install: name },
          body: {
            ...(release === undefined ? {} : { release }),
            ...(channel === undefined
              ? {}
              : { channel: checked(ChannelName, channel, "a channel") }),
            ...(input === undefined ? {} : { inputs: input }),
            allowDestroy: allowDestroy.map(asComponent),
            components: component.map(asComponent),
          },
        });
        printInstall(
          cli,
          options.wait ? await waitForDeploy(cli, client, name, options.timeout) : view,
        );
      }),
    );
}

function asComponent(name: string): ComponentName {
  return checked(ComponentName, name, "a component");
}
