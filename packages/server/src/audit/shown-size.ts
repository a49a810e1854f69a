// How long the record was when it was last shown, in a file beside the database: it is there for the day
// the database is restored from an older backup.

import { readFile } from "node:fs/promises";
import { writeDurably } from "@exclave/machine";
import type { ShownSize } from "./checkpoints.ts";

export function shownSizeIn(file: string): ShownSize {
  return {
    read,
    keep: (size) => writeDurably(file, `${size}\n`),
    async raise(size) {
      // Of several servers, none lowers what another has shown.
      if ((await read()) < size) await writeDurably(file, `${size}\n`);
    },
  };

  async function read(): Promise<number> {
    const text = await readFile(file, "utf8").catch((reason: NodeJS.ErrnoException) => {
      if (reason.code === "ENOENT") return "0";
      throw reason;
    });
    // A file that says nothing is no reason not to start: agents say what they saw.
    return /^\d{1,15}$/.test(text.trim()) ? Number(text) : 0;
  }
}
