// A chart from its source: a chart's directory, or one archive as `helm package` writes it. Charts below it have
// to be there already, because an install fetches none.

import { access, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { type BuildResult, Failure, type OperationContext, z } from "@exclave/plugin-sdk";
import { readMetadata } from "./frozen-chart.ts";

const Dependencies = z.array(z.looseObject({ name: z.string(), alias: z.string().optional() }));

export async function buildChart(context: OperationContext<unknown>): Promise<BuildResult> {
  const directory = await findChart(context);
  const { dependencies } = await readMetadata(directory);
  const wanted = Dependencies.safeParse(dependencies ?? []);
  const names = await readdir(join(directory, "charts")).catch(() => []);
  const missing = (wanted.data ?? []).find(
    ({ name }) => !names.some((file) => file === name || file.startsWith(`${name}-`)),
  );
  if (missing) {
    const message = `the chart ${missing.name}, which this one needs, is not in charts/; run helm dependency build`;
    throw new Failure("invalid", message);
  }
  return { kind: "chart", directory };
}

/** The chart in an artifact: as helm packs it, it lies in a folder of its own name. */
export async function chartIn(files: string): Promise<string> {
  if (await isChart(files)) return files;
  for (const name of await readdir(files)) {
    if (await isChart(join(files, name))) return join(files, name);
  }
  throw new Failure("invalid", "the artifact holds no chart");
}

function isChart(directory: string): Promise<boolean> {
  return access(join(directory, "Chart.yaml")).then(
    () => true,
    () => false,
  );
}

async function findChart(context: OperationContext<unknown>): Promise<string> {
  const { files, workDirectory } = context;
  if (await isChart(files)) return files;
  const archives = (await readdir(files)).filter((name) => name.endsWith(".tgz"));
  const [archive, other] = archives;
  if (archive === undefined || other !== undefined) {
    const message = "the source has neither a Chart.yaml at its top nor one chart's archive (.tgz)";
    throw new Failure("invalid", message);
  }
  const unpacked = join(workDirectory, "chart");
  await mkdir(unpacked, { recursive: true });
  await context.run("tar", ["-xzf", join(files, archive), "-C", unpacked], { echo: false });
  const [top, more] = await readdir(unpacked);
  if (top === undefined || more !== undefined) {
    throw new Failure("invalid", `${archive} is not a chart: it has to hold one folder`);
  }
  return join(unpacked, top);
}
