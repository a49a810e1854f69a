// A chart whose templates are what a plan rendered, word for word. Applying it sends to the cluster exactly what
// was planned, also where the chart makes passwords up or looks into the cluster: neither happens a second time.

import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure, z } from "@exclave/plugin-sdk";
import { readYamlDocuments } from "@exclave/plugin-sdk/kubernetes";
import type { Rendering } from "./helm.ts";

const RENDERED = "planned";
/** Kept with the release, for people who look at it with helm. */
const VALUES = "values.yaml";

export async function freezeChart(
  chart: string,
  { manifest, hooks }: Rendering,
  directory: string,
): Promise<string> {
  await rm(directory, { recursive: true, force: true });
  await mkdir(join(directory, "templates"), { recursive: true, mode: 0o700 });
  await mkdir(join(directory, RENDERED), { mode: 0o700 });
  await copyFile(join(chart, VALUES), join(directory, VALUES)).catch(unlessMissing);
  const metadata = await readMetadata(chart);
  await writeFile(join(directory, "Chart.yaml"), JSON.stringify(frozenMetadata(metadata)));

  // One template a document: helm sorts them by kind, and tells hooks by their annotations.
  for (const [index, text] of [manifest, ...hooks].entries()) {
    const file = `${RENDERED}/${index}.yaml`;
    await writeFile(join(directory, file), text, { mode: 0o600 });
    const template = `{{ .Files.Get ${JSON.stringify(file)} }}\n`;
    await writeFile(join(directory, "templates", `${index}.yaml`), template);
  }
  return directory;
}

function unlessMissing(reason: NodeJS.ErrnoException): void {
  if (reason.code !== "ENOENT") throw reason;
}

const Metadata = z.record(z.string(), z.unknown());

export async function readMetadata(chart: string): Promise<Record<string, unknown>> {
  const text = await readFile(join(chart, "Chart.yaml"), "utf8").catch((cause) => {
    throw new Failure("invalid", "a chart needs a Chart.yaml at its top", { cause });
  });
  const parsed = Metadata.safeParse(readYamlDocuments(text, "Chart.yaml")[0]);
  if (!parsed.success) throw new Failure("invalid", "Chart.yaml says nothing");
  return parsed.data;
}

/** What the charts below it had to give is in the rendering already. */
function frozenMetadata(metadata: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(metadata).filter(([name]) => name !== "dependencies"));
}
