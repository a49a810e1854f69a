import { mkdir, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { text as readText } from "node:stream/consumers";
import { CaFingerprint } from "@exclave/api";
import { findServerCa, proxyIn, writeDurably } from "@exclave/machine";
import { type Command, InvalidArgumentError } from "commander";
import { z } from "zod";
import { checkedUrl, type Target, unknownContext } from "../connection/connection.ts";
import type { Home } from "../connection/home.ts";
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
  caFile: z.string().optional(),
  caFingerprint: CaFingerprint.optional(),
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
    .description("add a context, or change one; takes --server, --token-file and --ca-file")
    .argument("<name>")
    .option("--token-stdin", "read the token from stdin and keep it in the settings file")
    .option(
      "--ca-fingerprint <sha256:…>",
      "of the server's own certificate authority, as its log says it: fetches and keeps its certificate",
      fingerprint,
    )
    .action(
      handler(invocation, AddOptions, async ({ cli, options }, name: string) => {
        const made = await contextFrom(options, { invocation, name, home: cli.home });
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
        await rm(caFileOf(cli.home, name), { force: true });
        cli.say(`context ${name} is removed`);
      }),
    );
}

async function contextFrom(
  options: z.infer<typeof AddOptions>,
  { invocation, name, home }: { invocation: Invocation; name: string; home: Home },
): Promise<Context> {
  if (options.server === undefined) {
    throw new CliProblem("usage", "a context needs the address of its server", {
      hint: `exclave context add ${name} --server https://… --token-file FILE`,
    });
  }
  const url = checkedUrl(options.server, "--server");
  const caFile = await caFileFrom(options, url, { invocation, name, home });
  const server = { server: url, ...(caFile === undefined ? {} : { caFile }) };
  if (options.tokenStdin) return { ...server, token: (await readText(invocation.stdin)).trim() };
  if (options.tokenFile)
    return { ...server, tokenFile: resolve(invocation.directory, options.tokenFile) };
  return server;
}

/** The certificate is kept, so that the server is asked for it once and never believed again. */
async function caFileFrom(
  { caFile, caFingerprint }: z.infer<typeof AddOptions>,
  url: string,
  { invocation, name, home }: { invocation: Invocation; name: string; home: Home },
): Promise<string | undefined> {
  if (caFingerprint === undefined) {
    return caFile === undefined ? undefined : resolve(invocation.directory, caFile);
  }
  const proxy = proxyIn(invocation.environment);
  const certificate = await findServerCa(url, caFingerprint, { proxy });
  const file = caFileOf(home, name);
  await mkdir(home.caDirectory, { recursive: true, mode: 0o700 });
  await writeDurably(file, certificate);
  return file;
}

function caFileOf({ caDirectory }: Home, name: string): string {
  return join(caDirectory, `${encodeURIComponent(name)}.crt`);
}

function fingerprint(text: string): string {
  const parsed = CaFingerprint.safeParse(text);
  if (parsed.success) return parsed.data;
  throw new InvalidArgumentError("a fingerprint is sha256: and 64 hexadecimal digits.");
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

function printTarget(cli: Cli, { url, from, token, caFile }: Target): void {
  const tokenFrom = token.kind === "file" ? token.path : token.kind === "value" ? token.from : null;
  cli.print({
    value: { server: url, from, token: tokenFrom, caFile: caFile ?? null },
    text: () =>
      pairs([
        ["server", url],
        ["named by", from],
        ["token from", tokenFrom ?? "nowhere"],
        ...(caFile === undefined ? [] : [["vouched for by", caFile] as const]),
      ]),
    names: () => [url],
  });
}
