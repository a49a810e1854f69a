// Runs one operation as its own process, the way a job does, so that a test can kill it. Usage:
// node job-process.ts <operation> <JSON of test context options>; lines go to stdout. SIGTERM asks
// the operation to stop. Exits with 1 and the failure on stderr when it fails.

import { Failure } from "@exclave/plugin-sdk";
import { createTestContext } from "@exclave/plugin-sdk/testing";
import { plugin } from "../plugin.ts";

const [operation, options] = process.argv.slice(2) as ["plan" | "apply" | "destroy", string];
const stop = new AbortController();
process.on("SIGTERM", () => stop.abort());

const context = await createTestContext(plugin, {
  ...JSON.parse(options),
  signal: stop.signal,
  onLine: (line) => process.stdout.write(`${JSON.stringify(line)}\n`),
});
try {
  await context.run(operation);
} catch (reason) {
  const code = reason instanceof Failure ? reason.code : "bug";
  process.stderr.write(`${code}: ${String(reason)}\n`);
  process.exitCode = 1;
}
