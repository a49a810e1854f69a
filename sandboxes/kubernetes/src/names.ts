// What everything of one install is called in a cluster. Ids are in the names, so that an install that has the name of an
// earlier one is not taken for it; one label finds all of it again.

import { z } from "@exclave/plugin-sdk";

export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

/** Kubernetes' own name for a name. */
const Label = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/);
/** A registry as nodes call it, with a repository below it or without; never with a separator at its end. */
const ImagePrefix = z
  .string()
  .max(400)
  .regex(/^[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(\/[a-z0-9]+([._-][a-z0-9]+)*)*$/);

export const SandboxWish = z.object({
  install: z.object({ id: Label, name: z.string().max(40) }),
  /** Where every image of this install comes from, as nodes pull it. */
  imagePrefix: ImagePrefix,
  /** Where the app lives; the jobs that apply it may act here and nowhere else. */
  appNamespaces: z.array(Label).min(1).max(20),
  /** How much of the cluster all jobs together may have. */
  jobs: z
    .object({
      countMax: z.int().min(1).max(10_000).default(200),
      podsMax: z.int().min(1).max(1_000).default(20),
      cpus: z.int().min(1).default(16),
      memoryGib: z.int().min(1).default(32),
    })
    .prefault({}),
  /** Where the cluster's API answers, for jobs that speak to it. */
  apiCidrs: z.array(z.cidrv4()).min(1).default(["0.0.0.0/0"]),
  /** For the state of components; the cluster's own choice of class unless given. */
  state: z
    .object({
      gib: z.int().min(1).default(5),
      storageClass: z.string().optional(),
      /** With one that can be mounted on one node alone, jobs with state wait for each other's node. */
      accessMode: z.enum(["ReadWriteOnce", "ReadWriteMany"]).default("ReadWriteOnce"),
    })
    .prefault({}),
});
export type SandboxWish = z.infer<typeof SandboxWish>;

export interface Names {
  readonly agent: string;
  readonly jobs: string;
  /** Of what belongs to no namespace. */
  readonly cluster: string;
}

export const INSTALL_LABEL = "exclave.dev/install";
export const JOB_ACCOUNTS = ["job-sync", "job-plan", "job-apply", "job-debug"] as const;
export type JobAccount = (typeof JOB_ACCOUNTS)[number];
export const AGENT = "agent";
export const REGISTRY = "registry";
export const LEASE = "exclave-agent";
export const STATE_CLAIM = "exclave-state";
export const IMAGES_PARAMETER = "exclave-images";
export const DOCUMENT_PORT = 8443;
export const REGISTRY_PORT = 5000;

export function namesOf({ install }: Pick<SandboxWish, "install">): Names {
  const cluster = `exclave-${install.id}`;
  return { cluster, agent: `${cluster}-agent`, jobs: `${cluster}-jobs` };
}

export function labelsOf({ install }: Pick<SandboxWish, "install">): Record<string, string> {
  return { "app.kubernetes.io/managed-by": "exclave", [INSTALL_LABEL]: install.id };
}
