// The agent's program: the only file that reads the command line and the environment.
//
//   agent <build|setup|install> --home DIR [--join-file FILE] [--images DIR] [--log-level LEVEL]
//         [--insecure-http] [--sandbox-default TYPE.NAME=VALUE]…
//   agent checkpoints --home DIR
//
// A join string is a secret and in no argument list: it is read from the file, which is removed when
// it is spent, or from standard input with `--join-file -`. LEVEL is debug, info, warn or error.
// A sandbox default is told to every sandbox of that type that a setup agent makes, unless the install
// says otherwise.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";
import { AgentKind } from "@exclave/api";
import {
  asFailure,
  createClock,
  Failure,
  INSECURE_HTTP_VARIABLE,
  TEST_CLOCK_VARIABLE,
  wantsInsecureHttp,
} from "@exclave/core";
import { proxyIn, useMachineCoders } from "@exclave/machine";
import { composeAlone } from "./compose-alone.ts";
import { readCheckpoints } from "./journal/read-checkpoints.ts";
import { createLog, isLogLevel } from "./log.ts";

const VERSION = "0.1.0";

async function main(): Promise<void> {
  useMachineCoders();
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      home: { type: "string" },
      "join-file": { type: "string" },
      images: { type: "string" },
      "sandbox-default": { type: "string", multiple: true, default: [] },
      "insecure-http": { type: "boolean", default: false },
      "log-level": { type: "string", default: "info" },
    },
  });
  if (positionals[0] === "checkpoints") return printCheckpoints(values.home);
  const kind = AgentKind.safeParse(positionals[0]).data;
  const level = values["log-level"];
  if (!kind || positionals.length !== 1) {
    throw new Failure("invalid", "say which agent this is: build, setup or install");
  }
  if (values.home === undefined) throw new Failure("invalid", "say where it lives: --home DIR");
  if (!isLogLevel(level)) throw new Failure("invalid", `${level} is no log level`);

  const now = createClock({
    machine: Date.now,
    directory: process.env[TEST_CLOCK_VARIABLE],
    program: `${kind}-agent`,
    readFile: (path) => readFileSync(path, "utf8"),
  });
  const log = createLog({ level, write: (line) => process.stderr.write(line), now });
  const agent = await composeAlone({
    kind,
    home: values.home,
    ...(values["join-file"] === "-"
      ? { joinString: await text(process.stdin) }
      : { joinFile: values["join-file"] }),
    images: values.images,
    sandboxDefaults: readSandboxDefaults(values["sandbox-default"]),
    insecureHttp: values["insecure-http"] || wantsInsecureHttp(process.env[INSECURE_HTTP_VARIABLE]),
    version: VERSION,
    platform: `${process.platform}/${process.arch}`,
    proxy: proxyIn(process.env),
    path: process.env.PATH ?? "",
    environment: process.env,
    // Whoever keeps this program up starts it again, on a new journal.
    onDamaged: (reason) => {
      process.stderr.write(`agent: ${asFailure(reason).message}\n`);
      process.exit(1);
    },
    now,
    random: Math.random,
    log,
  });

  const stop = (signal: string) => {
    log.info("stopping; jobs go on", { signal });
    agent.stop().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);
}

/** `TYPE.NAME=VALUE`, by type. */
function readSandboxDefaults(texts: readonly string[]): Record<string, Record<string, string>> {
  const defaults: Record<string, Record<string, string>> = {};
  for (const text of texts) {
    const [, type, name, value] = /^([a-z0-9-]+)\.([A-Za-z0-9_]+)=(.*)$/.exec(text) ?? [];
    if (type === undefined || name === undefined || value === undefined) {
      throw new Failure("invalid", `${text} is not TYPE.NAME=VALUE`);
    }
    defaults[type] = { ...defaults[type], [name]: value };
  }
  return defaults;
}

/** For the agent's owner: what this agent saw of the server's record, as it was signed. */
function printCheckpoints(home: string | undefined): void {
  if (home === undefined) throw new Failure("invalid", "say where it lives: --home DIR");
  const checkpoints = readCheckpoints(join(home, "agent", "journal.db"));
  process.stdout.write(`${JSON.stringify({ checkpoints }, undefined, 2)}\n`);
}

main().catch((reason: unknown) => {
  const { code, message } = asFailure(reason);
  process.stderr.write(`agent: ${message} (${code})\n`);
  process.exitCode = 1;
});
