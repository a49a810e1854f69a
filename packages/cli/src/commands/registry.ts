import { join } from "node:path";
import { INSECURE_HTTP_OPTION } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { type Cli, handler, type Invocation } from "../program/cli.ts";
import { plainEnvironment, programOf, runProgram } from "../program/package-program.ts";
import { CliProblem, ExitWith } from "../program/problem.ts";
import { usualOrFreePort } from "../up/port.ts";

const USUAL_PORT = 5420;

const Options = z.object({
  address: z.string().optional(),
  directory: z.string().optional(),
  anonymous: z.boolean().default(false),
  authKeys: z.string().optional(),
  issuer: z.string(),
  service: z.string(),
  realm: z.url().optional(),
  insecureHttp: z.boolean().default(false),
});
type Options = z.infer<typeof Options>;

export function addRegistryCommands(program: Command, invocation: Invocation): void {
  const registry = program.command("registry").description("the embedded OCI registry, on its own");

  registry
    .command("serve")
    .description("serve a registry until Ctrl-C, and print the address it listens on")
    .option("--address <host:port>", `where to listen (127.0.0.1:${USUAL_PORT}, or a free port)`)
    .option("--directory <directory>", "where the content lies ($EXCLAVE_HOME/registry)")
    .option("--anonymous", "open to everyone who reaches it, to read and to write")
    .option("--auth-keys <file>", "public keys (PEM or JWK set) whose tokens open it")
    .option("--issuer <name>", "who makes those tokens", "exclave")
    .option("--service <name>", "the name tokens know this registry by", "exclave-registry")
    .option("--realm <url>", "where clients are sent for a token")
    .action(
      handler(invocation, Options, async ({ cli, options }) => {
        if (options.anonymous === (options.authKeys !== undefined)) {
          throw new CliProblem("usage", "say who may use the registry", {
            hint: "--anonymous opens it to everyone, --auth-keys FILE to whoever has a token",
          });
        }
        await serve(cli, options);
      }),
    );
}

async function serve(cli: Cli, options: Options): Promise<void> {
  const { invocation, home } = cli;
  const directory = options.directory ?? join(home.directory, "registry");
  const address = options.address ?? `127.0.0.1:${await usualOrFreePort(USUAL_PORT)}`;
  const code = await runProgram(invocation, {
    program: programOf("@exclave/oci", "programs/registry-main"),
    args: [
      "--directory",
      directory,
      "--address",
      address,
      ...authArguments(options),
      ...(options.insecureHttp ? [INSECURE_HTTP_OPTION] : []),
    ],
    environment: plainEnvironment(invocation.environment),
    onLine: (line) => {
      if (!URL.canParse(line)) return;
      cli.print({ value: { url: line }, text: () => line, names: () => [line] });
      cli.say(`serving ${directory}; Ctrl-C ends it`);
    },
    detached: true,
  });
  // Asked to stop before it was ready, it is cut off: that is what was wanted.
  if (code !== 0 && !invocation.signal.aborted) throw new ExitWith(code);
}

function authArguments({ anonymous, authKeys, issuer, service, realm }: Options): string[] {
  if (anonymous || authKeys === undefined) return ["--anonymous"];
  const given = ["--auth-keys", authKeys, "--issuer", issuer, "--service", service];
  return realm === undefined ? given : [...given, "--realm", realm];
}
