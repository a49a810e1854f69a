// Who may do what, whole. "May create Jobs in a namespace" is the power of every account and every Secret in it; so jobs have
// a namespace that holds nothing else, and a policy says which account, image and volumes a Job may have.

import {
  AGENT,
  JOB_ACCOUNTS,
  type JobAccount,
  type KubeObject,
  LEASE,
  labelsOf,
  namesOf,
  REGISTRY,
  type SandboxWish,
} from "./names.ts";

type Rule = {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
};

/** All that the agent may do where jobs run. No update and no patch: a Job is what it was made. */
export const AGENT_IN_JOBS: readonly Rule[] = [
  {
    apiGroups: ["batch"],
    resources: ["jobs"],
    verbs: ["create", "get", "list", "watch", "delete"],
  },
  { apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"] },
  { apiGroups: [""], resources: ["pods/log"], verbs: ["get"] },
];

/** All that it may do where it lives: hold the one Lease that is there. */
export const AGENT_AT_HOME: readonly Rule[] = [
  {
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    resourceNames: [LEASE],
    verbs: ["get", "update"],
  },
];

/** All that it may do in the cluster: ask whose a token is. */
export const AGENT_IN_CLUSTER: readonly Rule[] = [
  { apiGroups: ["authentication.k8s.io"], resources: ["tokenreviews"], verbs: ["create"] },
];

/** What the debug jobs of a vendor may do in the app: look, read logs, run a command in a pod. No Secrets. */
const DEBUG: readonly Rule[] = [
  { apiGroups: [""], resources: ["pods/log"], verbs: ["get"] },
  { apiGroups: [""], resources: ["pods/exec"], verbs: ["create", "get"] },
];

export function accountsAndRights(wish: SandboxWish): KubeObject[] {
  const { agent, jobs, cluster } = namesOf(wish);
  const labels = labelsOf(wish);
  const home = { namespace: agent, labels };
  const place = { namespace: jobs, labels };
  return [
    ...[AGENT, REGISTRY].map((name) => account(name, home)),
    ...JOB_ACCOUNTS.map((name) => account(name, place)),
    role("exclave-agent", place, AGENT_IN_JOBS),
    binding("exclave-agent", place, { kind: "Role", name: "exclave-agent" }, AGENT, agent),
    role("exclave-agent", home, AGENT_AT_HOME),
    binding("exclave-agent", home, { kind: "Role", name: "exclave-agent" }, AGENT, agent),
    {
      apiVersion: RBAC,
      kind: "ClusterRole",
      metadata: { name: cluster, labels },
      rules: AGENT_IN_CLUSTER,
    },
    {
      apiVersion: RBAC,
      kind: "ClusterRoleBinding",
      metadata: { name: cluster, labels },
      roleRef: { apiGroup: RBAC_GROUP, kind: "ClusterRole", name: cluster },
      subjects: [{ kind: "ServiceAccount", name: AGENT, namespace: agent }],
    },
    {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { name: LEASE, ...home },
      spec: {},
    },
    ...wish.appNamespaces.flatMap((namespace) => rightsInApp(namespace, labels, jobs)),
  ];
}

const RBAC_GROUP = "rbac.authorization.k8s.io";
const RBAC = `${RBAC_GROUP}/v1`;

/** A plan asks for what an apply would do and is held to asking by a policy: rights know no dry run. */
function rightsInApp(namespace: string, labels: Labels, jobs: string): KubeObject[] {
  const place = { namespace, labels };
  const bound = (who: JobAccount, role: RoleRef, as: string = who) =>
    binding(`exclave-${as}`, place, role, who, jobs);
  return [
    bound("job-apply", { kind: "ClusterRole", name: "admin" }),
    bound("job-plan", { kind: "ClusterRole", name: "admin" }),
    role("exclave-debug", place, DEBUG),
    bound("job-debug", { kind: "ClusterRole", name: "view" }),
    bound("job-debug", { kind: "Role", name: "exclave-debug" }, "job-debug-exec"),
  ];
}

type Labels = Readonly<Record<string, string>>;
interface Place {
  readonly namespace: string;
  readonly labels: Labels;
}
interface RoleRef {
  readonly kind: "Role" | "ClusterRole";
  readonly name: string;
}

function account(name: string, place: Place): KubeObject {
  return {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name, ...place },
    // A pod that needs a token says so itself.
    automountServiceAccountToken: false,
  };
}

function role(name: string, place: Place, rules: readonly Rule[]): KubeObject {
  return { apiVersion: RBAC, kind: "Role", metadata: { name, ...place }, rules };
}

function binding(
  name: string,
  place: Place,
  role: RoleRef,
  who: string,
  namespace: string,
): KubeObject {
  return {
    apiVersion: RBAC,
    kind: "RoleBinding",
    metadata: { name, ...place },
    roleRef: { apiGroup: RBAC_GROUP, ...role },
    subjects: [{ kind: "ServiceAccount", name: who, namespace }],
  };
}
