// How much of a cluster an install's jobs may have, and whom they may speak to.

import {
  AGENT,
  DOCUMENT_PORT,
  type KubeObject,
  labelsOf,
  namesOf,
  REGISTRY,
  REGISTRY_PORT,
  type SandboxWish,
  STATE_CLAIM,
} from "./names.ts";

export function quotas(wish: SandboxWish): KubeObject[] {
  const metadata = { name: "exclave", namespace: namesOf(wish).jobs, labels: labelsOf(wish) };
  const { countMax, podsMax, cpus, memoryGib } = wish.jobs;
  return [
    {
      apiVersion: "v1",
      kind: "ResourceQuota",
      metadata,
      spec: {
        hard: {
          "count/jobs.batch": String(countMax),
          pods: String(podsMax),
          "requests.cpu": String(cpus),
          "requests.memory": `${memoryGib}Gi`,
          "limits.memory": `${memoryGib}Gi`,
          // What has no business beside jobs cannot be there at all; the one ConfigMap is the cluster's own.
          "count/secrets": "0",
          "count/services": "0",
          "count/configmaps": "1",
          persistentvolumeclaims: "1",
        },
      },
    },
    {
      apiVersion: "v1",
      kind: "LimitRange",
      metadata,
      spec: {
        limits: [
          {
            type: "Container",
            max: { memory: `${memoryGib}Gi`, cpu: String(cpus) },
            default: { memory: "512Mi", cpu: "1" },
            defaultRequest: { memory: "64Mi", cpu: "10m" },
          },
        ],
      },
    },
    {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { ...metadata, name: STATE_CLAIM },
      spec: {
        accessModes: [wish.state.accessMode],
        resources: { requests: { storage: `${wish.state.gib}Gi` } },
        ...(wish.state.storageClass !== undefined && { storageClassName: wish.state.storageClass }),
      },
    },
  ];
}

/** The address that clouds give their machines' credentials out at. */
const METADATA = "169.254.169.254/32";
const DNS = {
  ports: [53].flatMap((port) => ["UDP", "TCP"].map((protocol) => ({ protocol, port }))),
};
const ANYWHERE = { ipBlock: { cidr: "0.0.0.0/0", except: [METADATA] } };

/** These hold where the cluster's network enforces them. */
export function networkPolicies(wish: SandboxWish): KubeObject[] {
  const { agent, jobs } = namesOf(wish);
  const labels = labelsOf(wish);
  const inNamespace = (name: string) => ({
    namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": name } },
  });
  const named = (name: string) => ({
    podSelector: { matchLabels: { "app.kubernetes.io/name": name } },
  });
  const api = wish.apiCidrs.map((cidr) => ({
    ipBlock: { cidr, ...(cidr === "0.0.0.0/0" && { except: [METADATA] }) },
  }));
  const make = (namespace: string, name: string, spec: object): KubeObject => ({
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name, namespace, labels },
    spec,
  });
  return [
    ...[agent, jobs].map((namespace) =>
      make(namespace, "deny-all", { podSelector: {}, policyTypes: ["Ingress", "Egress"] }),
    ),
    make(jobs, "own-places", {
      podSelector: {},
      policyTypes: ["Egress"],
      egress: [
        DNS,
        { to: [{ ...inNamespace(agent), ...named(AGENT) }], ports: [tcp(DOCUMENT_PORT)] },
        { to: [{ ...inNamespace(agent), ...named(REGISTRY) }], ports: [tcp(REGISTRY_PORT)] },
      ],
    }),
    make(jobs, "outbound", {
      podSelector: { matchLabels: { "exclave.dev/network": "outbound" } },
      policyTypes: ["Egress"],
      egress: [{ to: [ANYWHERE] }],
    }),
    make(jobs, "cluster-api", {
      podSelector: {
        matchExpressions: [
          { key: "exclave.dev/class", operator: "In", values: ["plan", "apply", "debug"] },
        ],
      },
      policyTypes: ["Egress"],
      egress: [{ to: api, ports: [tcp(443), tcp(6443)] }],
    }),
    make(agent, "agent", {
      podSelector: named(AGENT).podSelector,
      policyTypes: ["Ingress", "Egress"],
      ingress: [{ from: [inNamespace(jobs)], ports: [tcp(DOCUMENT_PORT)] }],
      // It dials its vendor's one host, wherever that is; which one it is, its certificate pins.
      egress: [
        DNS,
        { to: [ANYWHERE], ports: [tcp(443), tcp(6443)] },
        { to: [named(REGISTRY)], ports: [tcp(REGISTRY_PORT)] },
      ],
    }),
    make(agent, "registry", {
      podSelector: named(REGISTRY).podSelector,
      policyTypes: ["Ingress"],
      // Nodes pull from it, and have no labels to be known by.
      ingress: [{ from: [ANYWHERE], ports: [tcp(REGISTRY_PORT)] }],
    }),
  ];
}

function tcp(port: number) {
  return { protocol: "TCP", port };
}
