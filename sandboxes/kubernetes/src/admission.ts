// What the cluster itself refuses, whoever asks: images from elsewhere, Jobs of another shape, and plans that change
// something. Policies of the API server, without a webhook or a pod. Each fails closed: without its parameter, and when an
// expression cannot be evaluated, the request is denied.

import {
  IMAGES_PARAMETER,
  INSTALL_LABEL,
  JOB_ACCOUNTS,
  type KubeObject,
  labelsOf,
  namesOf,
  type SandboxWish,
  STATE_CLAIM,
} from "./names.ts";

const GROUP = "admissionregistration.k8s.io/v1";

export function admissionPolicies(wish: SandboxWish): KubeObject[] {
  const { cluster, agent } = namesOf(wish);
  const labels = labelsOf(wish);
  return [
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: IMAGES_PARAMETER, namespace: agent, labels },
      data: { prefix: wish.imagePrefix },
    },
    ...imagePolicy(wish, `${cluster}-images`),
    ...jobPolicy(wish, `${cluster}-jobs`),
    ...planPolicy(wish, `${cluster}-plans`),
  ];
}

/** Compared with the separator: `registry/acme` is no prefix of `registry/acme-evil`. */
const FROM_PREFIX =
  "(i.startsWith(params.data.prefix + '/') || i.startsWith(params.data.prefix + ':') || i.startsWith(params.data.prefix + '@sha256:'))";
const BY_DIGEST = "i.matches('@sha256:[0-9a-f]{64}$')";

function imagePolicy(wish: SandboxWish, name: string): KubeObject[] {
  const images = (spec: string) =>
    [
      `${spec}.containers.map(c, c.image)`,
      `(has(${spec}.initContainers) ? ${spec}.initContainers.map(c, c.image) : [])`,
      `(has(${spec}.ephemeralContainers) ? ${spec}.ephemeralContainers.map(c, c.image) : [])`,
      // An image can be mounted as a volume, too.
      `(has(${spec}.volumes) ? ${spec}.volumes.filter(v, has(v.image) && has(v.image.reference)).map(v, v.image.reference) : [])`,
    ].join(" + ");
  return policy(wish, name, {
    resources: [
      { apiGroups: [""], apiVersions: ["v1"], resources: ["pods", "pods/ephemeralcontainers"] },
    ],
    operations: ["CREATE", "UPDATE"],
    variables: [{ name: "images", expression: images("object.spec") }],
    validations: [
      {
        expression: `variables.images.all(i, ${FROM_PREFIX})`,
        message: "every image of this install comes from its own registry",
      },
    ],
    namespaces: { matchLabels: { [INSTALL_LABEL]: wish.install.id } },
    hasParameter: true,
  });
}

const POD = "object.spec.template.spec";

function jobPolicy(wish: SandboxWish, name: string): KubeObject[] {
  const { jobs } = namesOf(wish);
  const accounts = `[${JOB_ACCOUNTS.map((account) => `'${account}'`).join(", ")}]`;
  const rules: readonly (readonly [string, string])[] = [
    [
      `has(${POD}.serviceAccountName) && ${POD}.serviceAccountName in ${accounts}`,
      "a job is one of the accounts of this install's jobs",
    ],
    [
      `has(object.metadata.labels) && 'exclave.dev/class' in object.metadata.labels && ${POD}.serviceAccountName == 'job-' + object.metadata.labels['exclave.dev/class']`,
      "a job's account is that of its class",
    ],
    [
      `${POD}.containers.all(c, [c.image].all(i, ${FROM_PREFIX} && ${BY_DIGEST}))`,
      "a job's image comes from the install's registry, by digest",
    ],
    [
      `size(${POD}.containers) == 1 && !has(${POD}.initContainers) && !has(${POD}.ephemeralContainers)`,
      "a job is one container",
    ],
    [
      "has(object.spec.backoffLimit) && object.spec.backoffLimit == 0 && (!has(object.spec.parallelism) || object.spec.parallelism == 1) && (!has(object.spec.completions) || object.spec.completions == 1)",
      "a job is tried once",
    ],
    [
      "has(object.spec.activeDeadlineSeconds) && object.spec.activeDeadlineSeconds <= 90000",
      "a job has an end",
    ],
    [
      `!has(${POD}.volumes) || ${POD}.volumes.all(v, has(v.emptyDir) || (has(v.persistentVolumeClaim) && v.persistentVolumeClaim.claimName == '${STATE_CLAIM}') || (has(v.projected) && v.projected.sources.all(s, has(s.serviceAccountToken) && has(s.serviceAccountToken.audience) && s.serviceAccountToken.audience == 'exclave-agent')))`,
      "a job's volumes are its own directory, the state of components and the token for its files",
    ],
    [
      `${POD}.containers.all(c, !has(c.envFrom) && (!has(c.env) || c.env.all(e, !has(e.valueFrom))))`,
      "a job's environment is written in it: no Secret, no ConfigMap",
    ],
    [
      `${POD}.containers.all(c, has(c.resources) && has(c.resources.limits) && 'memory' in c.resources.limits && 'cpu' in c.resources.limits)`,
      "a job has limits",
    ],
    [
      `${POD}.containers.all(c, has(c.securityContext) && has(c.securityContext.readOnlyRootFilesystem) && c.securityContext.readOnlyRootFilesystem)`,
      "a job cannot write its root",
    ],
    [`!has(${POD}.hostNetwork) || !${POD}.hostNetwork`, "a job has a network of its own"],
    [
      `!has(${POD}.automountServiceAccountToken) || !${POD}.automountServiceAccountToken || ${POD}.serviceAccountName != 'job-sync'`,
      "a sync has no token for the cluster",
    ],
  ];
  return policy(wish, name, {
    resources: [{ apiGroups: ["batch"], apiVersions: ["v1"], resources: ["jobs"] }],
    operations: ["CREATE", "UPDATE"],
    validations: rules.map(([expression, message]) => ({ expression, message })),
    namespaces: { matchLabels: { "kubernetes.io/metadata.name": jobs } },
    hasParameter: true,
  });
}

/** Its account has the rights of an apply, for a dry run needs them; nothing but dry runs gets through. */
function planPolicy(wish: SandboxWish, name: string): KubeObject[] {
  const { jobs } = namesOf(wish);
  return policy(wish, name, {
    resources: [{ apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"] }],
    operations: ["CREATE", "UPDATE", "DELETE", "CONNECT"],
    matchConditions: [
      {
        name: "is-a-plan",
        expression: `request.userInfo.username == 'system:serviceaccount:${jobs}:job-plan'`,
      },
    ],
    validations: [
      {
        expression: "has(request.dryRun) && request.dryRun",
        message: "a plan changes nothing: dry runs only",
      },
    ],
    hasParameter: false,
  });
}

interface Policy {
  readonly resources: readonly object[];
  readonly operations: readonly string[];
  readonly variables?: readonly object[];
  readonly matchConditions?: readonly object[];
  readonly validations: readonly { readonly expression: string; readonly message: string }[];
  readonly namespaces?: object;
  readonly hasParameter: boolean;
}

function policy(wish: SandboxWish, name: string, wanted: Policy): KubeObject[] {
  const { agent } = namesOf(wish);
  const labels = labelsOf(wish);
  const { resources, operations, variables, matchConditions, validations, namespaces } = wanted;
  return [
    {
      apiVersion: GROUP,
      kind: "ValidatingAdmissionPolicy",
      metadata: { name, labels },
      spec: {
        failurePolicy: "Fail",
        ...(wanted.hasParameter && { paramKind: { apiVersion: "v1", kind: "ConfigMap" } }),
        matchConstraints: {
          resourceRules: resources.map((resource) => ({ ...resource, operations })),
        },
        ...(matchConditions && { matchConditions }),
        ...(variables && { variables }),
        validations,
      },
    },
    {
      apiVersion: GROUP,
      kind: "ValidatingAdmissionPolicyBinding",
      metadata: { name, labels },
      spec: {
        policyName: name,
        validationActions: ["Deny"],
        ...(wanted.hasParameter && {
          paramRef: { name: IMAGES_PARAMETER, namespace: agent, parameterNotFoundAction: "Deny" },
        }),
        ...(namespaces && { matchResources: { namespaceSelector: namespaces } }),
      },
    },
  ];
}
