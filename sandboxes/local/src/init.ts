// The program that looks after a local install. Usage:
//   node init.mjs --home DIR          looks after it until SIGTERM; SIGHUP restarts agent and registry
//   node init.mjs --stop --home DIR   stops everything that runs in it, and returns when it is gone

import { writeFileSync } from "node:fs";
import { isAbsolute } from "node:path";
import { parseArgs } from "node:util";
import { programEnvironment } from "./environment.ts";
import { installHome } from "./home.ts";
import { stopInstall } from "./stop-install.ts";
import { superviseInstall } from "./supervise-install.ts";

const { values } = parseArgs({
  options: { home: { type: "string" }, stop: { type: "boolean", default: false } },
});

if (values.home === undefined || !isAbsolute(values.home)) {
  process.stderr.write("usage: init [--stop] --home DIR (an absolute path)\n");
  process.exitCode = 2;
} else {
  try {
    await (values.stop ? stopInstall({ home: installHome(values.home), log }) : run(values.home));
  } catch (reason) {
    log(reason instanceof Error ? reason.message : String(reason));
    process.exitCode = 1;
  }
}

async function run(directory: string): Promise<void> {
  const home = installHome(directory);
  keepFromFirstVictims();
  const asked = Promise.withResolvers<NodeJS.Signals>();
  // Before anything runs: a stop that comes early must not leave what was just started.
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    process.on(signal, () => asked.resolve(signal));
  let restart: () => void = () => undefined;
  process.on("SIGHUP", () => restart());

  const environment = programEnvironment(process.env, directory);
  const supervision = await superviseInstall({ home, environment, log });
  if (!supervision) return log("the install is already looked after");
  restart = () => {
    log("restarting agent and registry");
    supervision.restart().catch((reason) => log(`cannot restart: ${String(reason)}`));
  };

  log(`stopping on ${await asked.promise}`);
  await supervision.stop();
  log("nothing is running any more");
}

/** The setup job that starts it is the first to go when memory runs out; the install is no job. */
function keepFromFirstVictims(): void {
  try {
    writeFileSync("/proc/self/oom_score_adj", "0");
  } catch {
    // Not Linux, or somebody with more rights wants it otherwise.
  }
}

function log(message: string): void {
  process.stdout.write(`${new Date().toISOString()} ${message}\n`);
}
