// How a job gets at a cluster: by the service account its sandbox gave it, or, where the sandbox gives none, by
// a kubeconfig file on the machine the job runs on. No credential is ever part of a component's configuration.

import { existsSync } from "node:fs";
import { isAbsolute } from "node:path";
import { Failure } from "@exclave/core";

export interface AccessFacts {
  /** The path that the component names, if any. */
  readonly kubeconfig: string | undefined;
  readonly kubeconfigExists: boolean;
  /** Where the API server is, if the job runs in a cluster with a service account of its own. */
  readonly inCluster: { readonly host: string; readonly port: string } | undefined;
}

/** What kubectl and helm are told by their environment. */
export type ClusterEnvironment = Readonly<Record<string, string>>;

export function chooseAccess(facts: AccessFacts): ClusterEnvironment {
  const { kubeconfig, kubeconfigExists, inCluster } = facts;
  if (inCluster) {
    if (kubeconfig !== undefined) {
      const message =
        "this job has a service account of its own; kubeconfig is for sandboxes that give none";
      throw new Failure("invalid", message);
    }
    const { host, port } = inCluster;
    return { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port };
  }
  if (kubeconfig === undefined) {
    const message =
      "this job has no access to a cluster: its sandbox gives it no service account, and the component names no kubeconfig";
    throw new Failure("unavailable", message);
  }
  if (!isAbsolute(kubeconfig)) {
    throw new Failure(
      "invalid",
      "kubeconfig must be a path from the root of the install's machine",
    );
  }
  if (!kubeconfigExists) {
    throw new Failure("unavailable", `there is no kubeconfig at ${kubeconfig} in this install`);
  }
  return { KUBECONFIG: kubeconfig };
}

const ACCOUNT_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token";

export function findAccess(kubeconfig: string | undefined): ClusterEnvironment {
  const host = process.env.KUBERNETES_SERVICE_HOST;
  const port = process.env.KUBERNETES_SERVICE_PORT ?? "443";
  return chooseAccess({
    kubeconfig,
    kubeconfigExists: kubeconfig !== undefined && existsSync(kubeconfig),
    inCluster: host !== undefined && existsSync(ACCOUNT_TOKEN) ? { host, port } : undefined,
  });
}
