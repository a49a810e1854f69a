import { getInstall } from "@exclave/api";
import { InstallName } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { printInstall } from "../../output/install-text.ts";
import { handler, type Invocation } from "../../program/cli.ts";
import { checked } from "../../program/problem.ts";

export function addInstallShow(install: Command, invocation: Invocation): void {
  install
    .command("show")
    .description("show one install: what is wanted, what is there, what it waits for")
    .argument("<name>")
    .action(
      handler(invocation, z.object({}), async ({ cli }, given: string) => {
        const params = { install: checked(InstallName, given, "an install") };
        const client = await cli.connect();
        printInstall(cli, await client.call(getInstall, { params }));
      }),
    );
}
