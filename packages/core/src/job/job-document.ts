// What a job's container is handed, as the file `job.json` in its job directory: one step of a
// verified manifest, with expressions evaluated and places filled in. docs/specs/plugin-v1.md
// describes it for authors in other languages; this schema is its source.

import { z } from "zod";
import { Digest } from "../ids.ts";
import { Limits } from "../manifest/job-limits.ts";
import { ArtifactRef, Operation } from "../manifest/manifest.ts";

/** A registry the job may use, and the bearer token that says how far. */
export const RegistryAccess = z.object({
  url: z.url(),
  token: z.string().optional(),
  /** Instead of a token: what the registry's token service gives some for, while the job runs. */
  credential: z.string().optional(),
  /** Where this registry may send the job, beside its own origin; anywhere when there are none. */
  origins: z.array(z.string()).optional(),
  /** Certificates in PEM that vouch for it, instead of the machine's roots. */
  ca: z.string().optional(),
  /** The install's own: a job to which its runtime gave a socket of it uses that. */
  isOwn: z.boolean().optional(),
});
export type RegistryAccess = z.infer<typeof RegistryAccess>;

export const JobDocument = z.object({
  version: z.literal(1),
  job: z.string(),
  attempt: z.int().positive(),
  /** The install's name, for people to read. */
  install: z.string().optional(),
  installId: z.string().optional(),
  app: z.string().optional(),
  release: z.string().optional(),
  component: z.string().optional(),
  type: z.string().optional(),
  operation: Operation,
  /** Evaluated: no `${{ }}` is left in it. May hold secrets; the file is readable by the job alone. */
  config: z.record(z.string(), z.unknown()),
  parameters: z.record(z.string(), z.unknown()),
  artifact: ArtifactRef.optional(),
  materials: z.array(ArtifactRef.extend({ name: z.string() })),
  /** Where artifact and materials are read from (the install's own; for a build, the vendor's). */
  registry: RegistryAccess.optional(),
  /** Where a build, a sync or an assemble writes. */
  pushTo: RegistryAccess.extend({ repository: z.string() }).optional(),
  /** For a build: the uploaded source, fetched and unpacked by the runner. */
  source: z
    .object({ url: z.url(), token: z.string(), digest: Digest, ca: z.string().optional() })
    .optional(),
  /** How far the job may use the sandbox's container engine: for containers of its own component. */
  engine: z
    .object({
      token: z.string(),
      /** In the name and labels of everything of this install. */
      owner: z.string(),
      /** The image that this job runs, as the engine knows it. */
      image: z.string(),
      network: z.string(),
    })
    .optional(),
  /** Values that must not appear in any output. */
  secrets: z.array(z.string()),
  deadlineAt: z.int().positive(),
  /** How much of everything the job may use; what its runtime does not enforce, the runner may. */
  limits: Limits.optional(),
});
export type JobDocument = z.infer<typeof JobDocument>;

/** Environment of every job: where things are, never a secret. */
export const JOB_ENVIRONMENT = {
  /** Directory with job.json; the job's own, removed after it. */
  jobDirectory: "EXCLAVE_JOB_DIR",
  /** Directory that stays: this component's, in this install. Absent for builds. */
  stateDirectory: "EXCLAVE_STATE_DIR",
  /** Where a long-running program leaves `<name>.json`, so the sandbox can stop and restart it. */
  runDirectory: "EXCLAVE_RUN_DIR",
  /** A socket that leads to the install's registry, for a job that has no network to reach it by. */
  registrySocket: "EXCLAVE_REGISTRY_SOCKET",
  /** Where a job that shares no disk with its agent fetches its files from, once; the next two go with it. */
  documentUrl: "EXCLAVE_DOCUMENT_URL",
  /** In PEM, who vouches for that place. */
  documentCa: "EXCLAVE_DOCUMENT_CA",
  /** The file with the token that says which job asks. */
  documentToken: "EXCLAVE_DOCUMENT_TOKEN",
  /** A socket that leads to the sandbox's container engine, as far as the job document's token goes. */
  engineSocket: "EXCLAVE_ENGINE_SOCKET",
} as const;
