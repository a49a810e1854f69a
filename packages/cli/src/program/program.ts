// The command tree. Help, completion and the reference page are all made from it.

import { INSECURE_HTTP_OPTION, INSECURE_HTTP_VARIABLE } from "@exclave/core";
import { Command, Option } from "commander";
import { addAgentCommands } from "../commands/agent.ts";
import { addAuditCommands } from "../commands/audit.ts";
import { addChannelCommands } from "../commands/channel.ts";
import { addCheckCommand } from "../commands/check.ts";
import { addCompletionCommand } from "../commands/completion.ts";
import { addContextCommands } from "../commands/context.ts";
import { addExecCommand } from "../commands/exec.ts";
import { addInitCommand } from "../commands/init.ts";
import { addInstallCommands } from "../commands/install/install.ts";
import { addJobCommands } from "../commands/job.ts";
import { addKeysCommands } from "../commands/keys/keys.ts";
import { addLogsCommand } from "../commands/logs.ts";
import { addOciCommands } from "../commands/oci.ts";
import { addRegistryCommands } from "../commands/registry.ts";
import { addReleaseCommand } from "../commands/release/release.ts";
import { addServerCommands } from "../commands/server.ts";
import { addTokenCommands } from "../commands/token.ts";
import { addUpCommand } from "../commands/up.ts";
import { addVersionCommand } from "../commands/version.ts";
import { FORMATS } from "../output/output.ts";
import { forScreen, type Invocation } from "./cli.ts";
import { endingOf } from "./problem.ts";

export function createProgram(invocation: Invocation): Command {
  const program = new Command("exclave")
    .description("Runs your product inside every customer's own account.")
    .addOption(
      new Option("-o, --output <format>", "how answers are written")
        .choices(FORMATS)
        .default("table"),
    )
    .option("--context <name>", "the context to use instead of the current one")
    .option("--server <url>", "the server's address (or EXCLAVE_SERVER)")
    .option(
      "--token-file <file>",
      "a file that holds the token (or the token itself in EXCLAVE_TOKEN)",
    )
    .option(
      "--ca-file <file>",
      "certificates that vouch for the server, instead of the machine's roots (or EXCLAVE_CA_FILE)",
    )
    .option(
      INSECURE_HTTP_OPTION,
      `plain HTTP may be spoken beyond this machine (or ${INSECURE_HTTP_VARIABLE}=1)`,
    )
    .option("--no-color", "no colours (or NO_COLOR)")
    .option("-q, --quiet", "no progress and no remarks on stderr")
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError("(`--help` shows what there is)")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void invocation.stdout.write(text),
      writeErr: (text) => void invocation.stderr.write(text),
    });

  addUpCommand(program, invocation);
  addInitCommand(program, invocation);
  addCheckCommand(program, invocation);
  addReleaseCommand(program, invocation);
  addChannelCommands(program, invocation);
  addInstallCommands(program, invocation);
  addJobCommands(program, invocation);
  addLogsCommand(program, invocation);
  addExecCommand(program, invocation);
  addAgentCommands(program, invocation);
  addAuditCommands(program, invocation);
  addRegistryCommands(program, invocation);
  addServerCommands(program, invocation);
  addOciCommands(program, invocation);
  addTokenCommands(program, invocation);
  addKeysCommands(program, invocation);
  addContextCommands(program, invocation);
  addCompletionCommand(program, invocation);
  addVersionCommand(program, invocation);
  return program;
}

/** Runs one command line and answers with its exit code; what went wrong is on stderr by then. */
export async function runCli(argv: readonly string[], invocation: Invocation): Promise<number> {
  const program = createProgram(invocation);
  const words = argv[0] === "--version" || argv[0] === "-V" ? ["version"] : [...argv];
  try {
    await program.parseAsync(words, { from: "user" });
    return 0;
  } catch (reason) {
    const { exitCode, lines } = endingOf(reason);
    for (const line of lines) invocation.stderr.write(`${forScreen(invocation.stderr, line)}\n`);
    return exitCode;
  }
}
