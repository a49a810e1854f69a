import { resolve } from "node:path";
import { text as readText } from "node:stream/consumers";
import type { Command } from "commander";
import { z } from "zod";
import { checkedUrl, type Target, unknownContext } from "../connection/connection.ts";
import {
  type Context,
  readSettings,
  type Settings,
  withContext,
  writeSettings,
} from "../connection/settings.ts";
import { pairs, table } from "../output/output.ts";
import { type Cli, handler, type Invocation } from "../program/cli.ts";
import { CliProblem } from "../program/problem.ts";

const AddOptions = z.object({
  server: z.string().optional(),
  tokenFile: z.string().optional(),
  tokenStdin: z.boolean().default(false),
});

export function addContextCommands(program: Command, invocation: Invocation): void {
  const context = program
    .command("context")
    .alias("contexts")
    .description("the servers this machine knows");

  context
    .command("list")
    .alias("ls")
    .description("list contexts")
    .action(
      handler(invocation, z.object({}), async ({ cli }) =>
        printContexts(cli, await readSettings(cli.home)),
      ),
    );

  context
    .command("show")
    .description("show which server a command would use, and what names it")
    .action(
      handler(invocation, z.object({}), async ({ cli }) => printTarget(cli, await cli.target())),
    );

  context
    .command("use")
    .description("make a context the current one")
    .argument("<name>")
    .action(
      handler(invocation, z.object({}), async ({ cli }, name: string) => {
        const settings = await readSettings(cli.home);
        if (!settings.contexts[name]) throw unknownContext(name, settings);
        await writeSettings(cli.home, { ...settings, current: name });
        cli.say(`${name} is the current context now`);
      }),
    );

  context
    .command("add")
    .description("add a context, or change one; takes --server and --token-file")
    .argument("<name>")
    .option("--token-stdin", "read the token from stdin and keep it in the settings file")
    .action(
      handler(invocation, AddOptions, async ({ cli, options }, name: string) => {
        const made = await contextFrom(options, { invocation, name });
        await writeSettings(cli.home, withContext(await readSettings(cli.home), name, made));
        cli.say(`context ${name} is ${made.server}`);
      }),
    );

  context
    .command("remove")
    .alias("rm")
    .description("remove a context from this machine; the server is not touched")
    .argument("<name>")
    .action(
      handler(invocation, z.object({}), async ({ cli }, name: string) => {
        const { current, contexts } = await readSettings(cli.home);
        const { [name]: removed, ...others } = contexts;
        if (!removed) throw unknownContext(name, { contexts });
        const kept = current === undefined || current === name ? {} : { current };
        await writeSettings(cli.home, { ...kept, contexts: others });
        cli.say(`context ${name} is removed`);
      }),
    );
}

async function contextFrom(
  options: z.infer<typeof AddOptions>,
  { invocation, name }: { invocation: Invocation; name: string },
): Promise<Context> {
  if (options.server === undefined) {
    throw new CliProblem("usage", "a context needs the address of its server", {
      hint: `exclave context add ${name} --server https://… --token-file FILE`,
    });
  }
  const server = checkedUrl(options.server, "--server");
  if (options.tokenStdin) return { server, token: (await readText(invocation.stdin)).trim() };
  if (options.tokenFile)
    return { server, tokenFile: resolve(invocation.directory, options.tokenFile) };
  return { server };
}

function printContexts(cli: Cli, { current, contexts }: Settings): void {
  const rows = Object.entries(contexts).map(([name, { server, tokenFile, token }]) => ({
    name,
    server,
    current: name === current,
    token: tokenFile ?? (token === undefined ? null : "in the settings file"),
  }));
  cli.print({
    value: rows,
    text: () =>
      table(
        rows,
        [
          { header: "", cell: ({ current: isCurrent }) => (isCurrent ? "*" : "") },
          { header: "NAME", cell: ({ name }) => name },
          { header: "SERVER", cell: ({ server }) => server },
          { header: "TOKEN", cell: ({ token }) => token ?? "-" },
        ],
        "no context yet; `exclave up` makes one, `exclave context add` another",
      ),
    names: () => rows.map(({ name }) => name),
  });
}

function printTarget(cli: Cli, { url, from, token }: Target): void {
  const tokenFrom = token.kind === "file" ? token.path : token.kind === "value" ? token.from : null;
  cli.print({
    value: { server: url, from, token: tokenFrom },
    text: () =>
      pairs([
        ["server", url],
        ["named by", from],
        ["token from", tokenFrom ?? "nowhere"],
      ]),
    names: () => [url],
  });
}
