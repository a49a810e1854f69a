// Deploys Kubernetes manifests and kustomizations by server-side apply: shows what would change, applies exactly
// that, waits until it is ready, and takes away what it once made and is wanted no more.

import { readFile } from "node:fs/promises";
import { definePlugin, type OperationContext, z } from "@exclave/plugin-sdk";
import {
  changeFacts,
  checkChanges,
  createKubectl,
  describeChanges,
  digestOf,
  execInPod,
  findAccess,
  findChanges,
  forgetNamespace,
  type Kubectl,
  KubeObject,
  keepNamespace,
  refOf,
  showLogs,
  stalePlan,
  statusOf,
  summariseChanges,
  waitUntilReady,
} from "@exclave/plugin-sdk/kubernetes";
import { forgetState, keepState, ownedObjects, readState } from "./component-state.ts";
import { Config } from "./config.ts";
import { buildManifests, readManifests } from "./manifests.ts";
import {
  findUnwanted,
  isOwnedBy,
  marked,
  ownerName,
  phasesOf,
  refuseForeign,
  refuseTwice,
} from "./ownership.ts";

type Context = OperationContext<Config>;

/** Every field it sets is its own, and no other component of this type writes as the same. */
const fieldManager = ({ component }: Context) => `exclave-${component}`.slice(0, 128);

const KubePlan = z.object({
  version: z.literal(1),
  namespace: z.string(),
  /** What the plan was made of; an apply with other manifests or variables is refused. */
  contentDigest: z.string(),
  objects: z.array(KubeObject),
  changes: z.array(z.string()),
});
type KubePlan = z.infer<typeof KubePlan>;

const ApplyParameters = z.object({ planFile: z.string().optional() });

export const plugin = definePlugin({
  type: "kubernetes",
  description: "Kubernetes manifests or a kustomization, applied into a cluster",
  config: Config,
  outputs: {
    namespace: { type: "string", description: "Where its objects live", sensitive: false },
  },
  buildKeys: ["path"],
  source: "required",
  tools: ["kubectl"],
  artifactFor: { destroy: "ignored", status: "ignored", logs: "ignored", exec: "ignored" },
  effects: { apply: "fenced", destroy: "fenced" },

  build: buildManifests,

  async plan(context) {
    const kubectl = openCluster(context);
    const { plan, changes } = await makePlan(context, kubectl);
    for (const line of describeChanges(changes)) context.log(line);
    const file = await context.writeFile("plan.json", JSON.stringify(plan));
    return { file, ...summariseChanges(changes) };
  },

  async apply(context) {
    const kubectl = openCluster(context);
    const { planFile } = ApplyParameters.parse(context.parameters);
    const plan = planFile
      ? KubePlan.parse(JSON.parse(await readFile(planFile, "utf8")))
      : (await makePlan(context, kubectl)).plan;
    await refuseOther(context, plan);
    const { changes, unwanted } = await compare(context, kubectl, plan.objects);
    checkChanges(plan.changes, changeFacts(changes));

    const { stateDirectory } = context;
    const before = ownedObjects(await readState(stateDirectory));
    const state = { version: 1 as const, objects: plan.objects };
    // Written before anything is made, so that whatever is made is known.
    await keepState(stateDirectory, { ...state, leftovers: before, isComplete: false });
    await keepNamespace(context, kubectl);
    await applyInOrder(context, kubectl, plan.objects);
    await waitUntilReady(kubectl, plan.objects, waitOf(context));
    await removeInOrder(kubectl, unwanted, context.config.timeoutSeconds);
    await keepState(stateDirectory, { ...state, leftovers: [], isComplete: true });

    for (const { object, action } of changes) {
      const done = action === "create" ? "created" : action === "delete" ? "destroyed" : "changed";
      context.resource(done, object.kind, object.name);
    }
    context.output("namespace", context.config.namespace);
  },

  async destroy(context) {
    const kubectl = openCluster(context);
    const state = await readState(context.stateDirectory);
    const owned = await kubectl.live(ownedObjects(state));
    const owner = ownerOf(context);
    const there = owned.filter((object) => object !== undefined);
    const ours = there.filter((object) => isOwnedBy(object, owner));
    if (ours.length === 0) context.log("nothing is there to delete");
    await removeInOrder(kubectl, ours, context.config.timeoutSeconds);
    for (const { kind, metadata } of ours) context.resource("destroyed", kind, metadata.name);
    await forgetNamespace(context, kubectl);
    await forgetState(context.stateDirectory);
  },

  async status(context) {
    const state = await readState(context.stateDirectory);
    if (!state) return { health: "missing", because: "it was never applied here" };
    const kubectl = openCluster(context);
    const status = await statusOf(kubectl, state.objects, fieldManager(context));
    if (state.isComplete || status.health === "missing") return status;
    return { ...status, health: "degraded", because: "the last apply did not finish" };
  },

  async logs(context) {
    const kubectl = openCluster(context);
    const objects = (await readState(context.stateDirectory))?.objects ?? [];
    await showLogs(context, kubectl, await kubectl.live(objects));
  },

  async exec(context) {
    const kubectl = openCluster(context);
    const objects = (await readState(context.stateDirectory))?.objects ?? [];
    return execInPod(context, kubectl, await kubectl.live(objects));
  },
});

function openCluster(context: Context): Kubectl {
  const { kubeconfig, namespace } = context.config;
  return createKubectl(context, { environment: findAccess(kubeconfig), namespace });
}

function ownerOf({ installId, component }: Context): string {
  return ownerName(installId, component);
}

async function makePlan(context: Context, kubectl: Kubectl) {
  const manifests = await readManifests(context);
  refuseTwice(manifests, kubectl.namespace);
  const objects = manifests.map((object) => marked(object, ownerOf(context)));
  const { changes } = await compare(context, kubectl, objects);
  const plan: KubePlan = {
    version: 1,
    namespace: kubectl.namespace,
    contentDigest: digestOf(manifests),
    objects,
    changes: changeFacts(changes),
  };
  return { plan, changes };
}

async function refuseOther(context: Context, plan: KubePlan): Promise<void> {
  if (plan.namespace !== context.config.namespace) {
    throw stalePlan(`it is for the namespace ${plan.namespace}`);
  }
  if (plan.contentDigest !== digestOf(await readManifests(context))) {
    throw stalePlan("the manifests or their variables are others now");
  }
}

/** What applying these objects would change in the cluster as it is now, and what would go. */
async function compare(context: Context, kubectl: Kubectl, objects: readonly KubeObject[]) {
  const owner = ownerOf(context);
  const live = await kubectl.live(objects);
  refuseForeign(live, owner, context.config.adopt);
  const next = await kubectl.preview(objects, fieldManager(context));
  const wanted = objects.map((object, index) => {
    const ref = refOf(live[index] ?? next[index] ?? object);
    return { ref, live: live[index], next: next[index] };
  });
  const owned = ownedObjects(await readState(context.stateDirectory));
  const refs = wanted.map(({ ref }) => ref);
  const unwanted = findUnwanted(owned, await kubectl.live(owned), refs, owner);
  return { unwanted, changes: findChanges({ wanted, unwanted: unwanted.map(refOf) }) };
}

async function applyInOrder(context: Context, kubectl: Kubectl, objects: readonly KubeObject[]) {
  for (const phase of phasesOf(objects)) {
    context.progress(`applying ${phase.length} objects, ${phase[0]?.kind} first`);
    await kubectl.apply(phase, fieldManager(context));
    // Objects of a new kind can be made only once the kind is served.
    if (phase[0]?.kind === "CustomResourceDefinition") {
      await waitUntilReady(kubectl, phase, waitOf(context));
    }
  }
}

async function removeInOrder(
  kubectl: Kubectl,
  objects: readonly KubeObject[],
  timeoutSeconds: number,
): Promise<void> {
  for (const phase of phasesOf(objects).toReversed()) await kubectl.delete(phase, timeoutSeconds);
}

function waitOf(context: Context) {
  const { timeoutSeconds } = context.config;
  const onProgress = (because: string) => context.progress(because);
  return { timeoutSeconds, signal: context.signal, onProgress };
}
