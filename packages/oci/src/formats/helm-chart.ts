// A Helm chart as `helm push` would write it: the chart's archive as the one layer, Chart.yaml as the
// configuration, the version as the tag. Without times, so that the same chart has the same digest.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { canonicalBytes, Failure, readYaml } from "@exclave/core";
import { z } from "zod";
import { unlessAbsent } from "../content/blob-files.ts";
import { type ContentStore, readBlobBytes, writeBlobBytes } from "../content/content-store.ts";
import { type Descriptor, MEDIA_TYPES, parseManifest } from "../content/descriptor.ts";
import { createLayer } from "../layer/layer.ts";
import { HELM_TYPES, TITLE_ANNOTATION } from "./media-types.ts";
import { tagOfVersion } from "./version-tag.ts";
import { type FormatTarget, writeDocument, writePacked } from "./write-document.ts";

/** What Chart.yaml says; fields we do not know are Helm's business and kept. */
export const ChartMetadata = z.looseObject({
  apiVersion: z.enum(["v1", "v2"]),
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/),
  version: z.string().regex(/^v?\d+(\.\d+){0,2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$/),
  description: z.string().optional(),
});
export type ChartMetadata = z.infer<typeof ChartMetadata>;

export interface PackChart extends FormatTarget {
  readonly directory: string;
}

export async function packChart(chart: PackChart): Promise<Descriptor> {
  const { store, repository, directory } = chart;
  const metadata = await readChartMetadata(directory);
  const { name, version, description } = metadata;
  // Helm finds a chart's files below a folder of the chart's name.
  await using layer = await createLayer(
    { directory, prefix: name },
    { mediaType: HELM_TYPES.chart },
  );
  const content = await writePacked(chart, layer);
  const bytes = canonicalBytes(metadata);
  const config = await writeBlobBytes(store, repository, HELM_TYPES.config, bytes);
  return writeDocument(
    { ...chart, tag: chart.tag ?? tagOfVersion(version) },
    {
      schemaVersion: 2,
      mediaType: MEDIA_TYPES.manifest,
      config,
      layers: [content],
      annotations: {
        [TITLE_ANNOTATION]: name,
        "org.opencontainers.image.version": version,
        ...(description !== undefined && { "org.opencontainers.image.description": description }),
        ...chart.annotations,
      },
    },
  );
}

export async function readChartMetadata(directory: string): Promise<ChartMetadata> {
  const text = await unlessAbsent(readFile(join(directory, "Chart.yaml"), "utf8"));
  if (text === undefined) throw new Failure("invalid", "a chart needs a Chart.yaml at its top");
  const { value, problems } = readYaml(text, "Chart.yaml");
  const [problem] = problems;
  if (problem) throw new Failure("invalid", `Chart.yaml:${problem.line}: ${problem.message}`);
  return parseMetadata(value);
}

/** What the chart in a registry says of itself. */
export async function readChart(
  store: ContentStore,
  repository: string,
  reference: string,
): Promise<ChartMetadata> {
  const { bytes, mediaType } = await store.readManifest(repository, reference);
  const parsed = parseManifest(bytes, mediaType);
  if (parsed.kind === "index" || parsed.manifest.config.mediaType !== HELM_TYPES.config) {
    throw new Failure("invalid", `${repository} ${reference} is not a Helm chart`);
  }
  const config = await readBlobBytes(store, repository, parsed.manifest.config);
  return parseMetadata(JSON.parse(Buffer.from(config).toString("utf8")));
}

function parseMetadata(value: unknown): ChartMetadata {
  const metadata = ChartMetadata.safeParse(value);
  if (metadata.success) return metadata.data;
  const [issue] = metadata.error.issues;
  const where = issue?.path.join(".") || "it";
  throw new Failure("invalid", `Chart.yaml: ${where}: ${issue?.message ?? "is not a chart's"}`, {
    cause: metadata.error,
  });
}
