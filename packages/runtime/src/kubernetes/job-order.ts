// What a cluster is asked to make of a job: a Job with one pod that is tried once, can do nothing it was not
// given, and is left alone by whatever tidies clusters up.

import { createHash } from "node:crypto";
import { DEFAULT_LIMITS, JOB_ENVIRONMENT, type JobClass, type JobName } from "@exclave/core";
import { plainPath } from "@exclave/machine/engine";
import type { JobSpec } from "../job-runtime.ts";

export interface JobPlace {
  readonly namespace: string;
  /** The install's registry as the nodes pull from it, without a scheme. */
  readonly imageRegistry: string;
  /** Where a job fetches its files. */
  readonly document: { readonly url: string; readonly ca: string };
  /** By class, where it is not `job-<class>`. */
  readonly serviceAccounts: Partial<Readonly<Record<JobClass, string>>>;
  /** Classes whose jobs are given a token for the cluster's API, with the rights of their account. */
  readonly apiClasses: readonly JobClass[];
  /** The claim that holds the state of components. */
  readonly stateClaim?: string | undefined;
  /** SIGKILL comes so long after SIGTERM. A cluster takes it from the pod, not from who deletes it. */
  readonly graceSeconds: (jobClass: JobClass) => number;
  /** How long a pod may wait for a node before the job is over. */
  readonly scheduleSeconds: number;
}

export const LABELS = {
  job: "exclave.dev/job",
  jobClass: "exclave.dev/class",
  network: "exclave.dev/network",
} as const;
export const CONTAINER = "job";
export const TOKEN_AUDIENCE = "exclave-agent";
/** The least that a kubelet issues; it is renewed while the pod lives, and works once. */
const TOKEN_SECONDS = 600;
const TOKEN_DIRECTORY = "/run/exclave";
const JOB_PATH = "/job";
const STATE_PATH = "/state";
const NAME_MAX = 60;
const NOBODY = 65_532;
const MIB = 1024 ** 2;
const GIB = 1024 * MIB;
const TMP_BYTES = 64 * MIB;

/** A pure function of the job's name. Pods get a suffix, and a label holds 63 characters. */
export function kubeName(name: JobName): string {
  if (name.length <= NAME_MAX) return name;
  const digest = createHash("sha256").update(name).digest("hex").slice(0, 16);
  return `${name.slice(0, NAME_MAX - 18)}-x${digest}`;
}

export function jobOrder(spec: JobSpec, place: JobPlace) {
  const { jobClass } = spec;
  const name = kubeName(spec.name);
  const deadline = Math.max(1, Math.ceil(spec.deadlineMs / 1_000));
  const grace = place.graceSeconds(jobClass);
  const labels = {
    "app.kubernetes.io/managed-by": "exclave",
    [LABELS.job]: name,
    [LABELS.jobClass]: jobClass,
    [LABELS.network]: spec.network,
  };
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: {
      name,
      namespace: place.namespace,
      labels,
      // A label may have to shorten it.
      annotations: { [LABELS.job]: spec.name },
    },
    spec: {
      // Tried once: whether it may be tried again is the server's to say, with a new attempt.
      backoffLimit: 0,
      completions: 1,
      parallelism: 1,
      // One that is on its way out may still act, so it is not over and has no successor.
      podReplacementPolicy: "Failed",
      // The kubelet ends it at its deadline and keeps its output; this ends what never got to a node.
      activeDeadlineSeconds: deadline + grace + place.scheduleSeconds,
      template: {
        metadata: { labels, annotations: LEFT_ALONE },
        spec: podOrder(spec, place, { deadline, grace }),
      },
    },
  };
}

/** A drain that has a choice takes another node. */
const LEFT_ALONE = {
  "karpenter.sh/do-not-disrupt": "true",
  "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
};

function podOrder(
  spec: JobSpec,
  place: JobPlace,
  { deadline, grace }: { readonly deadline: number; readonly grace: number },
) {
  const { jobClass } = spec;
  const state = spec.stateVolume === undefined ? undefined : plainPath(spec.stateVolume);
  return {
    restartPolicy: "Never",
    serviceAccountName: place.serviceAccounts[jobClass] ?? `job-${jobClass}`,
    automountServiceAccountToken: place.apiClasses.includes(jobClass),
    enableServiceLinks: false,
    // The first process of a PID namespace hears no signal it did not ask for; here that is the pause container.
    shareProcessNamespace: true,
    activeDeadlineSeconds: deadline,
    terminationGracePeriodSeconds: grace,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: NOBODY,
      runAsGroup: NOBODY,
      fsGroup: NOBODY,
      fsGroupChangePolicy: "OnRootMismatch",
      seccompProfile: { type: "RuntimeDefault" },
    },
    containers: [
      {
        name: CONTAINER,
        image: imageOf(spec, place),
        imagePullPolicy: "IfNotPresent",
        workingDir: JOB_PATH,
        env: Object.entries(environmentOf(spec, place)).map(([key, value]) => ({
          name: key,
          value,
        })),
        resources: resourcesOf(spec),
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        },
        // What the kubelet tells of an end is its own word, never the job's.
        terminationMessagePath: "/dev/termination-log",
        terminationMessagePolicy: "File",
        volumeMounts: [
          { name: "job", mountPath: JOB_PATH },
          { name: "tmp", mountPath: "/tmp" },
          { name: "document", mountPath: TOKEN_DIRECTORY, readOnly: true },
          ...(state === undefined
            ? []
            : [{ name: "state", mountPath: STATE_PATH, subPath: state }]),
        ],
      },
    ],
    volumes: [
      { name: "job", emptyDir: { sizeLimit: String(diskBytesOf(spec)) } },
      { name: "tmp", emptyDir: { sizeLimit: String(TMP_BYTES) } },
      { name: "document", projected: { defaultMode: 0o440, sources: [DOCUMENT_TOKEN] } },
      ...(state === undefined
        ? []
        : [
            place.stateClaim === undefined
              ? { name: "state", emptyDir: { sizeLimit: String(diskBytesOf(spec)) } }
              : { name: "state", persistentVolumeClaim: { claimName: place.stateClaim } },
          ]),
    ],
  };
}

const DOCUMENT_TOKEN = {
  serviceAccountToken: {
    audience: TOKEN_AUDIENCE,
    expirationSeconds: TOKEN_SECONDS,
    path: "document-token",
  },
};

function imageOf({ image }: JobSpec, { imageRegistry }: JobPlace): string {
  return `${imageRegistry}/${image.repository}@${image.digest}`;
}

/** Memory is set aside whole, so that a job is never short of what it was promised; a processor is shared. */
function resourcesOf({ limits }: JobSpec) {
  const cpus = limits.cpus ?? DEFAULT_LIMITS.cpus;
  const memory = String(limits.memoryBytes ?? DEFAULT_LIMITS.memoryBytes);
  return {
    limits: { cpu: `${Math.round(cpus * 1_000)}m`, memory },
    requests: { cpu: `${Math.min(100, Math.round(cpus * 1_000))}m`, memory },
  };
}

function diskBytesOf({ limits }: JobSpec): number {
  return limits.diskBytesMax ?? 10 * GIB;
}

/** Paths of the container, and where its files are; the search path is the image's own. */
function environmentOf(spec: JobSpec, { document }: JobPlace): Record<string, string> {
  const hasFiles = Object.keys(spec.files).length > 0;
  return {
    HOME: `${JOB_PATH}/own`,
    TMPDIR: "/tmp",
    ...spec.environment,
    [JOB_ENVIRONMENT.jobDirectory]: `${JOB_PATH}/own`,
    ...(spec.stateVolume !== undefined && { [JOB_ENVIRONMENT.stateDirectory]: STATE_PATH }),
    ...(hasFiles && {
      [JOB_ENVIRONMENT.documentUrl]: document.url,
      [JOB_ENVIRONMENT.documentCa]: document.ca,
      [JOB_ENVIRONMENT.documentToken]: `${TOKEN_DIRECTORY}/document-token`,
    }),
  };
}
