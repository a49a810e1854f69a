// Hands each job its files, once. A job in a cluster shares no disk with its agent and is given no Secret; it asks with
// the token that its kubelet made for that one pod. Who it is says the cluster, never the request.

import { type JobName, JobName as JobNameSchema } from "@exclave/core";
import { z } from "zod";
import { kubeName, LABELS, TOKEN_AUDIENCE } from "./job-order.ts";
import { jobOfPod, KubeJob, KubePod } from "./job-run.ts";
import type { KubeClient } from "./kube-client.ts";
import { dropRecord, type KubePlace, podsPath, readRecord } from "./kube-place.ts";

export interface DocumentDesk {
  /** The files of the job whose pod the token is of. Asked again, it refuses. */
  handOut(token: string): Promise<HandedOut>;
}

export type HandedOut =
  | {
      readonly kind: "files";
      readonly job: JobName;
      readonly files: Readonly<Record<string, string>>;
    }
  | { readonly kind: "refused"; readonly status: 401 | 403 | 410; readonly because: string };

const POD_NAME = "authentication.kubernetes.io/pod-name";
const POD_UID = "authentication.kubernetes.io/pod-uid";

const TokenReview = z.object({
  status: z
    .object({
      authenticated: z.boolean().default(false),
      audiences: z.array(z.string()).default([]),
      user: z
        .object({
          username: z.string().default(""),
          extra: z.record(z.string(), z.array(z.string())).default({}),
        })
        .prefault({}),
    })
    .prefault({}),
});
type TokenReview = z.infer<typeof TokenReview>;

export function createDocumentDesk(
  place: Pick<KubePlace, "namespace" | "directory"> & { readonly client: KubeClient },
): DocumentDesk {
  const { client, namespace, directory } = place;
  /** Under way in this process: two requests of one pod at once are two, and one is too many. */
  const handing = new Set<string>();
  return { handOut };

  async function handOut(token: string): Promise<HandedOut> {
    const who = podOfToken(await review(client, token), namespace);
    if (who === undefined) return refused(401, "the cluster does not vouch for this token");
    const pod = await client.find(podsPath(place as KubePlace, who.name), KubePod);
    if (pod?.metadata.uid !== who.uid) return refused(403, "the pod of this token is gone");
    const name = await jobNameOf(pod);
    if (name === undefined) return refused(403, "this pod is no job's");
    if (handing.has(name)) return refused(410, "its files are being handed out");
    handing.add(name);
    try {
      const files = await readRecord({ directory }, name, "files");
      if (!files) return refused(410, "its files were handed out before");
      // Before the answer: one that gets lost on the way is not given a second time.
      await dropRecord({ directory }, name, "files");
      return { kind: "files", job: name, files };
    } finally {
      handing.delete(name);
    }
  }

  /** A pod says whose it is by label and owner; a Job says which name of ours it has. */
  async function jobNameOf(pod: KubePod): Promise<JobName | undefined> {
    const owner = jobOfPod(pod);
    if (owner === undefined || !/^[a-z0-9-]{1,63}$/.test(owner)) return undefined;
    const job = await client.find(`/apis/batch/v1/namespaces/${namespace}/jobs/${owner}`, KubeJob);
    const name = JobNameSchema.safeParse(job?.metadata.annotations[LABELS.job]).data;
    return name !== undefined && kubeName(name) === owner ? name : undefined;
  }
}

/** The pod that a token was made for, if the cluster vouches for it and it is one of the jobs'. */
export function podOfToken(
  { status }: TokenReview,
  namespace: string,
): { readonly name: string; readonly uid: string } | undefined {
  const { authenticated, audiences, user } = status;
  const isOurs = user.username.startsWith(`system:serviceaccount:${namespace}:`);
  // A token that was made for somebody else, or an API server that does not know audiences.
  if (!authenticated || !isOurs || !audiences.includes(TOKEN_AUDIENCE)) return undefined;
  const name = user.extra[POD_NAME]?.[0];
  const uid = user.extra[POD_UID]?.[0];
  const isPlain = name !== undefined && /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(name);
  return isPlain && uid !== undefined ? { name, uid } : undefined;
}

async function review(client: KubeClient, token: string): Promise<TokenReview> {
  const answer = await client.send("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {
    json: {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenReview",
      spec: { token, audiences: [TOKEN_AUDIENCE] },
    },
    schema: TokenReview,
  });
  return answer ?? TokenReview.parse({});
}

function refused(status: 401 | 403 | 410, because: string): HandedOut {
  return { kind: "refused", status, because };
}
