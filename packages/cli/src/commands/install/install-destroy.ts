import { destroyInstall } from "@exclave/api";
import { InstallName } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { printInstall } from "../../output/install-text.ts";
import { durationOption } from "../../program/arguments.ts";
import { handler, type Invocation } from "../../program/cli.ts";
import { confirmByName } from "../../program/confirm.ts";
import { checked } from "../../program/problem.ts";
import { waitForDestroy } from "../../progress/wait-install.ts";

const Options = z.object({
  because: z.string().optional(),
  yes: z.boolean().default(false),
  wait: z.boolean().default(false),
  timeout: z.int(),
});

export function addInstallDestroy(install: Command, invocation: Invocation): void {
  install
    .command("destroy")
    .alias("rm")
    .description("take everything down in reverse order, then the sandbox")
    .argument("<name>")
    .option("--because <reason>", "why, for the record")
    .option("-y, --yes", "go on without asking; needed where there is no terminal")
    .option("--wait", "wait until nothing is left")
    .addOption(durationOption("--timeout <duration>", "how long to wait", "10m"))
    .action(
      handler(
        invocation,
        Options,
        async ({ cli, options: { because, yes, wait, timeout } }, given: string) => {
          const name = checked(InstallName, given, "an install");
          if (!yes) await confirmByName(cli, name, `This takes down everything in ${name}.`);
          const client = await cli.connect();
          const body = because === undefined ? {} : { because };
          const view = await client.call(destroyInstall, { params: { install: name }, body });
          printInstall(cli, wait ? await waitForDestroy(cli, client, name, timeout) : view);
        },
      ),
    );
}
