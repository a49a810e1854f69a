import { createToken, listTokens, Role, revokeToken, type TokenView } from "@exclave/api";
import { type Command, Option } from "commander";
import { z } from "zod";
import { listAll } from "../connection/pages.ts";
import { table, time } from "../output/output.ts";
import { durationMs } from "../program/arguments.ts";
import { type Cli, handler, type Invocation } from "../program/cli.ts";

export function addTokenCommands(program: Command, invocation: Invocation): void {
  const token = program.command("token").alias("tokens").description("tokens for this API");

  token
    .command("create")
    .description("make a token; its value is shown this once")
    .argument("<name>", "what it is for")
    .addOption(
      new Option("--role <role>", "what it may do").choices(Role.options).default("viewer"),
    )
    .option("--expires <duration>", "when it ends by itself, such as 30d", durationMs)
    .action(
      handler(
        invocation,
        z.object({ role: Role, expires: z.int().optional() }),
        async ({ cli, options: { role, expires } }, name: string) => {
          const client = await cli.connect();
          const expiry =
            expires === undefined ? {} : { expiresInSeconds: Math.ceil(expires / 1_000) };
          const made = await client.call(createToken, { body: { name, role, ...expiry } });
          cli.say(`token ${made.id} (${role}); keep the value, it is not shown again`);
          cli.print({ value: made, text: () => made.token, names: () => [made.id] });
        },
      ),
    );

  token
    .command("list")
    .alias("ls")
    .description("list tokens, never their values")
    .action(
      handler(invocation, z.object({}), async ({ cli }) => {
        printTokens(cli, await listAll<TokenView>(await cli.connect(), listTokens));
      }),
    );

  token
    .command("revoke")
    .alias("rm")
    .description("revoke a token")
    .argument("<token>", "its id")
    .action(
      handler(invocation, z.object({}), async ({ cli }, id: string) => {
        const client = await cli.connect();
        const revoked = await client.call(revokeToken, { params: { token: id } });
        cli.print({
          value: revoked,
          text: () => `token ${revoked.id} (${revoked.name}) is revoked`,
          names: () => [revoked.id],
        });
      }),
    );
}

function printTokens(cli: Cli, tokens: readonly TokenView[]): void {
  cli.print({
    value: tokens,
    text: () =>
      table(
        tokens,
        [
          { header: "ID", cell: ({ id }) => id },
          { header: "NAME", cell: ({ name }) => name },
          { header: "ROLE", cell: ({ role }) => role },
          { header: "CREATED", cell: ({ createdAt }) => time(createdAt) },
          { header: "EXPIRES", cell: ({ expiresAt }) => time(expiresAt) },
          { header: "REVOKED", cell: ({ revokedAt }) => time(revokedAt) },
        ],
        "there are no tokens",
      ),
    names: () => tokens.map(({ id }) => id),
  });
}
