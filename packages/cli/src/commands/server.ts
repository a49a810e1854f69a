import { type AuthorityView, getAuthority, retireAuthority, rotateAuthority } from "@exclave/api";
import type { Command } from "commander";
import { Option } from "commander";
import { z } from "zod";
import { time } from "../output/output.ts";
import { type Cli, handler, type Invocation } from "../program/cli.ts";
import { plainEnvironment, programOf, runProgram } from "../program/package-program.ts";
import { CliProblem, ExitWith } from "../program/problem.ts";
import { serverEnvironment } from "../program/server-environment.ts";

const Options = z.object({
  from: z.literal("sqlite"),
  to: z.literal("postgres"),
  data: z.string().optional(),
});

const Move = z.object({
  rows: z.number(),
  records: z.number(),
  aside: z.string(),
  wasThere: z.boolean(),
});

const Backup = z.object({
  files: z.number(),
  bytes: z.number(),
  directory: z.string(),
  hasDatabase: z.boolean(),
});

const DATA = ["--data <directory>", "the server's data directory ($EXCLAVE_HOME/server)"] as const;
const DataOption = z.object({ data: z.string().optional() });

export function addServerCommands(program: Command, invocation: Invocation): void {
  const server = program.command("server").description("the server's own memory and authority");
  addAuthorityCommands(server, invocation);
  addRunCommand(server, invocation);

  server
    .command("backup")
    .description("copy all that a server on this machine is to a new directory, while it runs")
    .argument("<to>", "a directory that is not there yet")
    .option(...DATA)
    .action(
      handler(invocation, DataOption, async ({ cli, options }, to: string) => {
        const data = options.data ?? cli.home.serverDirectory;
        const { hasDatabase, directory } = await copy(cli, ["backup", "--data", data, "--to", to]);
        cli.say(
          hasDatabase
            ? `it holds the server's keys: keep ${directory} as you keep the server`
            : "the database is PostgreSQL's and not in it: back that up first, this second",
        );
      }),
    );

  server
    .command("restore")
    .description("make a server's data directory from a backup, where there is none")
    .argument("<from>", "a directory that `server backup` made")
    .option(...DATA)
    .action(
      handler(invocation, DataOption, async ({ cli, options }, from: string) => {
        const data = options.data ?? cli.home.serverDirectory;
        await copy(cli, ["restore", "--from", from, "--data", data]);
        cli.say("start the server; agents tell it what happened since, and that goes on record");
      }),
    );

  server
    .command("migrate")
    .description("move what a stopped server knows from its SQLite file to PostgreSQL")
    .addOption(
      new Option("--from <database>", "where it is").choices(["sqlite"]).makeOptionMandatory(),
    )
    .addOption(
      new Option("--to <database>", "where it goes: an empty database, $EXCLAVE_DATABASE_URL")
        .choices(["postgres"])
        .makeOptionMandatory(),
    )
    .option(...DATA)
    .action(
      handler(invocation, Options, async ({ cli, options }) => {
        await migrate(cli, options.data ?? cli.home.serverDirectory);
      }),
    );
}

const RunOptions = z.object({
  address: z.string(),
  data: z.string().optional(),
  publicUrl: z.string().optional(),
  tls: z.boolean().default(false),
  tlsCertificate: z.string().optional(),
  tlsKey: z.string().optional(),
  tlsCa: z.string().optional(),
  behindTlsBalancer: z.boolean().default(false),
  insecureHttp: z.boolean().default(false),
});

function addRunCommand(server: Command, invocation: Invocation): void {
  server
    .command("run")
    .description(
      "run a server in the foreground; several may share a PostgreSQL database ($EXCLAVE_DATABASE_URL) and data directory",
    )
    .requiredOption("--address <host:port>", "where it listens")
    .option(...DATA)
    .option("--public-url <url>", "how agents and people reach it, the same for all that share")
    .option("--tls", "TLS by the server's own authority on this machine too")
    .option("--tls-certificate <file>", "a certificate that was brought, in PEM")
    .option("--tls-key <file>", "its key")
    .option("--tls-ca <file>", "the authority to pin, where it is none that machines know")
    .option("--behind-tls-balancer", "TLS ends at a balancer before it")
    .option("--insecure-http", "plain HTTP beyond this machine")
    .action(
      handler(invocation, RunOptions, async ({ cli, options }) => {
        const { data = cli.home.serverDirectory, ...rest } = options;
        const code = await runProgram(invocation, {
          program: programOf("@exclave/server"),
          args: argumentsOf({ data, ...rest }),
          environment: {
            ...plainEnvironment(invocation.environment),
            ...serverEnvironment(invocation.environment),
          },
        });
        if (code !== 0) throw new ExitWith(code);
      }),
    );
}

function argumentsOf(options: Readonly<Record<string, string | boolean | undefined>>): string[] {
  return Object.entries(options).flatMap(([name, value]) => {
    const flag = `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    if (value === undefined || value === false) return [];
    return value === true ? [flag] : [flag, value];
  });
}

function addAuthorityCommands(server: Command, invocation: Invocation): void {
  const ca = server.command("ca").description("the server's own certificate authority");

  ca.command("show")
    .description("show the authority, the one it replaces, and how many agents do not know it yet")
    .action(
      handler(invocation, z.object({}), async ({ cli }) =>
        printAuthority(cli, await (await cli.connect()).call(getAuthority)),
      ),
    );

  ca.command("rotate")
    .description("make a new authority; the old one vouches for it until it is retired")
    .action(
      handler(invocation, z.object({}), async ({ cli }) =>
        printAuthority(cli, await (await cli.connect()).call(rotateAuthority, { body: {} })),
      ),
    );

  ca.command("retire")
    .description("end the old authority, once every agent knows the current one")
    .option("--force", "although agents that know no other will have to join anew")
    .action(
      handler(
        invocation,
        z.object({ force: z.boolean().default(false) }),
        async ({ cli, options }) =>
          printAuthority(cli, await (await cli.connect()).call(retireAuthority, { body: options })),
      ),
    );
}

function printAuthority(cli: Cli, view: AuthorityView): void {
  const { current, old, behind } = view;
  const replaces = old
    ? `\nreplaces ${old.fingerprint}; ${behind.agents} agents do not know the current one yet`
    : "";
  const text = () => `${current.fingerprint}, until ${time(current.expiresAt)}${replaces}`;
  cli.print({ value: view, text, names: () => [current.fingerprint] });
}

async function copy(cli: Cli, args: readonly string[]): Promise<z.infer<typeof Backup>> {
  const { invocation } = cli;
  let made: z.infer<typeof Backup> | undefined;
  const code = await runProgram(invocation, {
    program: programOf("@exclave/server", "backup-main"),
    args,
    environment: plainEnvironment(invocation.environment),
    onLine: (line) => {
      made = Backup.parse(JSON.parse(line));
    },
  });
  if (code !== 0 || !made) throw new ExitWith(code === 0 ? 1 : code);
  const { files, bytes, directory } = made;
  const text = () => `${directory}: ${files} files, ${(bytes / 1e6).toFixed(1)} MB`;
  cli.print({ value: made, text, names: () => [directory] });
  return made;
}

async function migrate(cli: Cli, data: string): Promise<void> {
  const { invocation } = cli;
  const database = invocation.environment.EXCLAVE_DATABASE_URL;
  if (database === undefined) {
    throw new CliProblem("usage", "it is not said where the PostgreSQL database is", {
      hint: "set EXCLAVE_DATABASE_URL, for example postgres://exclave@db.internal/exclave?sslmode=verify-full",
    });
  }
  const code = await runProgram(invocation, {
    program: programOf("@exclave/server", "migrate-main"),
    args: ["--data", data],
    environment: { ...plainEnvironment(invocation.environment), EXCLAVE_DATABASE_URL: database },
    onLine: (line) => {
      const move = Move.parse(JSON.parse(line));
      const done = move.wasThere
        ? "everything was there already, from a move that was cut short"
        : `${move.rows} rows were moved, among them ${move.records} records of the audit chain`;
      cli.print({ value: move, text: () => done, names: () => [move.aside] });
      cli.say(
        `the SQLite file is kept as ${move.aside}; start the server with EXCLAVE_DATABASE_URL`,
      );
    },
  });
  if (code !== 0) throw new ExitWith(code);
}
