// Packs the images that installed packages carry as folders into one OCI layout, for `exclave up`.
//
//   images-main --out DIRECTORY --node FILE FOLDER…
//
// A layout made of the same folders and the same Node is left alone.

import { parseArgs } from "node:util";
import { asFailure, Failure } from "@exclave/core";
import { packImages } from "../images/pack-images.ts";

try {
  await main(process.argv.slice(2));
} catch (reason) {
  const { code, message } = asFailure(reason);
  process.stderr.write(`error: ${message}\n`);
  process.exitCode = code === "invalid" ? 2 : 1;
}

async function main(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: { out: { type: "string" }, node: { type: "string" } },
  });
  const { out, node } = values;
  if (out === undefined || node === undefined) {
    throw new Failure("invalid", "say where the images go and on which Node: --out and --node");
  }
  await packImages({
    directory: out,
    folders: positionals,
    nodePath: node,
    ifNeeded: true,
    log: (line) => void process.stdout.write(`${line}\n`),
  });
}
