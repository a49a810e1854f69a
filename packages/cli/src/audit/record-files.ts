// The record as files: an export, which is rows with what signs them, and the checkpoints an agent kept.

import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { AuditRecord, Envelope } from "@exclave/core";
import { z } from "zod";
import { CliProblem } from "../program/problem.ts";

/** The first line of an export; every other line is one row. */
export const ExportHeader = z.object({
  kind: z.literal("exclave.audit.v1"),
  checkpoint: Envelope,
  trust: z.array(Envelope).min(1),
});
export type ExportHeader = z.infer<typeof ExportHeader>;

export interface ExportedRecord extends ExportHeader {
  readonly records: readonly AuditRecord[];
}

export function exportText(header: ExportHeader, records: readonly AuditRecord[]): string {
  return [header, ...records].map((line) => `${JSON.stringify(line)}\n`).join("");
}

export async function readExport(file: string): Promise<ExportedRecord> {
  let header: ExportHeader | undefined;
  const records: AuditRecord[] = [];
  try {
    for await (const line of createInterface({ input: createReadStream(file) })) {
      if (header) records.push(AuditRecord.parse(JSON.parse(line)));
      else header = ExportHeader.parse(JSON.parse(line));
    }
    return { ...ExportHeader.parse(header), records };
  } catch (cause) {
    throw new CliProblem("usage", `${file} is not an export of a record`, {
      hint: "write one with `exclave audit export FILE`",
      cause,
    });
  }
}

const Kept = z.object({ checkpoints: z.array(z.object({ envelope: Envelope })) });

/** As `exclave agent checkpoints` prints them. */
export async function readCheckpoints(file: string): Promise<Envelope[]> {
  try {
    const { checkpoints } = Kept.parse(JSON.parse(await readFile(file, "utf8")));
    return checkpoints.map(({ envelope }) => envelope);
  } catch (cause) {
    throw new CliProblem("usage", `${file} does not hold checkpoints`, {
      hint: "print those an agent kept with `exclave agent checkpoints --home DIR`",
      cause,
    });
  }
}
