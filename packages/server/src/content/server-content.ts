// Where a server keeps what is too large for rows: job logs, sources and the content of the vendor's registry, in its
// directory or in an object store.

import { type ObjectStore, objectsBelow } from "@exclave/oci/objects";
import type { Logger } from "pino";
import type { DataDirectory } from "../data-directory.ts";
import { createJobLogs, type JobLogs } from "../job/job-logs.ts";
import { createObjectJobLogs } from "../job/object-job-logs.ts";
import { createObjectSources } from "./object-sources.ts";
import { createSourceFiles, type SourceArchives } from "./source-archives.ts";

export interface ServerContent {
  readonly logs: JobLogs;
  readonly sources: SourceArchives;
  readonly registry: RegistryPlace;
  /** Gives up what killed servers left behind half uploaded. */
  tidy(now: number): Promise<void>;
  close(): Promise<void>;
}

/** Of the vendor's registry; with objects, the directory has uploads under way alone. */
export interface RegistryPlace {
  readonly directory: string;
  readonly objects?: ObjectStore | undefined;
}

export interface ContentOptions {
  /** Files in the data directory unless given. */
  readonly objects?: ObjectStore | undefined;
  readonly logBytesMax?: number;
  readonly log: Logger;
}

/** Longer than any upload takes. */
const UPLOAD_MS_MAX = 24 * 60 * 60_000;

export function openContent(
  directory: Pick<DataDirectory, "logs" | "uploads" | "registry">,
  { objects, log, ...options }: ContentOptions,
): ServerContent {
  if (!objects) {
    const logs = createJobLogs(directory.logs, options);
    const sources = createSourceFiles(directory.uploads);
    const registry = { directory: directory.registry };
    return { logs, sources, registry, tidy: async () => undefined, close: () => logs.close() };
  }
  const onError = (reason: unknown) => log.warn({ reason }, "a log's pieces could not be merged");
  const logs = createObjectJobLogs(objectsBelow(objects, "logs/"), { ...options, onError });
  return {
    logs,
    sources: createObjectSources(objectsBelow(objects, "sources/")),
    registry: { directory: directory.registry, objects: objectsBelow(objects, "registry/") },
    async tidy(now) {
      const given = await objects.abortUploads("", now - UPLOAD_MS_MAX);
      if (given > 0) log.info({ given }, "uploads that were left behind are given up");
    },
    close: () => logs.close(),
  };
}
