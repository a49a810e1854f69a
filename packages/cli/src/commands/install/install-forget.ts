import { forgetInstall } from "@exclave/api";
import { InstallName } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { handler, type Invocation } from "../../program/cli.ts";
import { confirmByName } from "../../program/confirm.ts";
import { checked } from "../../program/problem.ts";

export function addInstallForget(install: Command, invocation: Invocation): void {
  install
    .command("forget")
    .description(
      "drop the server's rows of an install; nothing in the customer's account is touched",
    )
    .argument("<name>")
    .option("--force", "also when it was not destroyed: what runs there goes on running")
    .option("-y, --yes", "go on without asking; needed where there is no terminal")
    .action(
      handler(
        invocation,
        z.object({ force: z.boolean().default(false), yes: z.boolean().default(false) }),
        async ({ cli, options: { force, yes } }, given: string) => {
          const params = { install: checked(InstallName, given, "an install") };
          if (!yes) await confirmByName(cli, given, `The server will not know ${given} any more.`);
          const client = await cli.connect();
          const query = { force: force ? ("true" as const) : ("false" as const) };
          const answer = await client.call(forgetInstall, { params, query });
          cli.print({
            value: answer,
            text: () => `${answer.forgotten} is forgotten: ${answer.note}`,
            names: () => [answer.forgotten],
          });
        },
      ),
    );
}
