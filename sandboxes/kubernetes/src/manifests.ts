// Everything that stands around an install's agent and jobs in a cluster, as the objects that `kubectl apply` reads. A plain
// function of the wish: the same wish is the same text, so that a reviewer reads what will be there.

import { accountsAndRights } from "./access.ts";
import { admissionPolicies } from "./admission.ts";
import { networkPolicies, quotas } from "./bounds.ts";
import { type KubeObject, labelsOf, namesOf, type SandboxWish } from "./names.ts";

export function sandboxManifests(wish: SandboxWish): KubeObject[] {
  return [
    ...namespaces(wish),
    ...accountsAndRights(wish),
    // Before anything can run.
    ...admissionPolicies(wish),
    ...quotas(wish),
    ...networkPolicies(wish),
  ];
}

/** As one document, for a pipe into `kubectl apply -f -`. JSON is YAML. */
export function manifestText(objects: readonly KubeObject[]): string {
  return `${JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }, undefined, 2)}\n`;
}

/** Where to look, and by which label, to see that nothing of an install is left. */
export const LISTED_KINDS = [
  "namespaces",
  "clusterroles",
  "clusterrolebindings",
  "validatingadmissionpolicies",
  "validatingadmissionpolicybindings",
] as const;

function namespaces(wish: SandboxWish): KubeObject[] {
  const { agent, jobs } = namesOf(wish);
  const make = (name: string, level: "restricted" | "baseline"): KubeObject => ({
    apiVersion: "v1",
    kind: "Namespace",
    metadata: {
      name,
      labels: {
        ...labelsOf(wish),
        "pod-security.kubernetes.io/enforce": level,
        "pod-security.kubernetes.io/warn": "restricted",
      },
      annotations: { "exclave.dev/install-name": wish.install.name },
    },
  });
  return [
    make(agent, "restricted"),
    make(jobs, "restricted"),
    ...wish.appNamespaces.map((name) => make(name, "baseline")),
  ];
}
