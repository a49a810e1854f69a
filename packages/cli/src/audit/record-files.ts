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
  /** In order, a few hundred at a time. */
  readonly pages: AsyncIterable<readonly AuditRecord[]>;
}

export async function* exportText({ kind, checkpoint, trust, pages }: ExportedRecord) {
  yield `${JSON.stringify({ kind, checkpoint, trust } satisfies ExportHeader)}\n`;
  for await (const records of pages) {
    yield records.map((record) => `${JSON.stringify(record)}\n`).join("");
  }
}

export async function readExport(file: string): Promise<ExportedRecord> {
  const lines = createInterface({ input: createReadStream(file) })[Symbol.asyncIterator]();
  try {
    const first = await lines.next();
    const header = ExportHeader.parse(JSON.parse(first.done ? "" : first.value));
    return { ...header, pages: readPages(lines, file) };
  } catch (cause) {
    throw notAnExport(file, cause);
  }
}

async function* readPages(lines: AsyncIterator<string>, file: string) {
  for (let next = await lines.next(); !next.done; next = await lines.next()) {
    yield [readRow(next.value, file)];
  }
}

function readRow(line: string, file: string): AuditRecord {
  try {
    return AuditRecord.parse(JSON.parse(line));
  } catch (cause) {
    throw notAnExport(file, cause);
  }
}

function notAnExport(file: string, cause: unknown): CliProblem {
  return new CliProblem("usage", `${file} is not an export of a record`, {
    hint: "write one with `exclave audit export FILE`",
    cause,
  });
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
