// What a build writes into the artifact about itself: the tool it was made with. The artifact's
// providers and modules lie under that tool's addresses, so an install goes on with the same one.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "@exclave/plugin-sdk";
import { ToolName } from "./tool.ts";

const RECORD = join(".exclave", "built.json");

/**
 * The tool's name and not its version: an install need not have the builder's version, and an update
 * of the builder would give every unchanged module another digest.
 */
const BuildRecord = z.object({ tool: ToolName });
export type BuildRecord = z.infer<typeof BuildRecord>;

export async function writeBuildRecord(
  directory: string,
  { tool }: Readonly<BuildRecord>,
): Promise<void> {
  const file = join(directory, RECORD);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, `${JSON.stringify({ tool })}\n`);
}

/** Undefined in an artifact from before builds wrote it. */
export async function readBuildRecord(files: string): Promise<BuildRecord | undefined> {
  const text = await readFile(join(files, RECORD), "utf8").catch(() => undefined);
  return text === undefined ? undefined : BuildRecord.parse(JSON.parse(text));
}
