// The agent's program: the only file that reads the command line and the environment.
//
//   agent <build|setup|install> --home DIR [--join STRING | --join-file FILE] [--images DIR]
//         [--log-level debug|info|warn|error]

import { parseArgs } from "node:util";
import { AgentKind } from "@exclave/api";
import { asFailure, Failure } from "@exclave/core";
import { composeAgent } from "./compose.ts";
import { createLog, isLogLevel } from "./log.ts";

const VERSION = "0.1.0";

async function main(): Promise<void> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      home: { type: "string" },
      join: { type: "string" },
      "join-file": { type: "string" },
      images: { type: "string" },
      "log-level": { type: "string", default: "info" },
    },
  });
  const kind = AgentKind.safeParse(positionals[0]).data;
  const level = values["log-level"];
  if (!kind || positionals.length !== 1) {
    throw new Failure("invalid", "say which agent this is: build, setup or install");
  }
  if (values.home === undefined) throw new Failure("invalid", "say where it lives: --home DIR");
  if (!isLogLevel(level)) throw new Failure("invalid", `${level} is no log level`);

  const log = createLog({ level, write: (line) => process.stderr.write(line), now: Date.now });
  const agent = await composeAgent({
    kind,
    home: values.home,
    joinString: values.join,
    joinFile: values["join-file"],
    images: values.images,
    version: VERSION,
    platform: `${process.platform}/${process.arch}`,
    path: process.env.PATH ?? "",
    now: Date.now,
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

main().catch((reason: unknown) => {
  const { code, message } = asFailure(reason);
  process.stderr.write(`agent: ${message} (${code})\n`);
  process.exitCode = 1;
});
