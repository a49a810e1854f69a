// The checkpoints an agent kept, read beside it: for its owner to show to whoever doubts the record.

import { DatabaseSync } from "node:sqlite";
import { Failure } from "@exclave/core";
import { z } from "zod";
import { KeptCheckpoint } from "./journal.ts";

export function readCheckpoints(path: string): KeptCheckpoint[] {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path, { readOnly: true });
    const row = database.prepare("select value from facts where name = 'checkpoints'").get();
    return z.array(KeptCheckpoint).parse(JSON.parse(String(row?.["value"] ?? "[]")));
  } catch (cause) {
    throw new Failure("not_found", `${path} is not the journal of an agent`, { cause });
  } finally {
    database?.close();
  }
}
