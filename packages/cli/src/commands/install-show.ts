import { getInstall } from "@exclave/api";
import { InstallName } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { handler, type World } from "../cli.ts";
import { printInstall } from "../install-text.ts";
import { checked } from "../problem.ts";

export function addInstallShow(install: Command, world: World): void {
  install
    .command("show")
    .description("show one install: what is wanted, what is there, what it waits for")
    .argument("<name>")
    .action(
      handler(world, z.object({}), async ({ cli }, given: string) => {
        const params = { install: checked(InstallName, given, "an install") };
        const client = await cli.connect();
        printInstall(cli, await client.call(getInstall, { params }));
      }),
    );
}
