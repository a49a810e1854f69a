// Copies a server's data directory while it runs, or makes one from a copy:
//   node backup-main.ts backup --data DIR --to DIR
//   node backup-main.ts restore --from DIR --data DIR
// Says the end as one JSON line on stdout.

import { parseArgs } from "node:util";
import { asFailure, Failure } from "@exclave/core";
import { backUpServer, restoreServer } from "./backup/backup-server.ts";

try {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { data: { type: "string" }, to: { type: "string" }, from: { type: "string" } },
  });
  process.stdout.write(`${JSON.stringify(await made(positionals[0], values))}\n`);
} catch (reason) {
  const failure = asFailure(reason);
  if (failure.code === "bug") console.error(reason);
  process.stderr.write(`${failure.message}\n`);
  process.exitCode = failure.code === "invalid" ? 2 : 1;
}

function made(
  what: string | undefined,
  { data, to, from }: { data?: string; to?: string; from?: string },
) {
  if (what === "backup" && data !== undefined && to !== undefined) return backUpServer(data, to);
  if (what === "restore" && data !== undefined && from !== undefined) {
    return restoreServer(from, data);
  }
  throw new Failure("invalid", "usage: backup --data DIR --to DIR, restore --from DIR --data DIR");
}
