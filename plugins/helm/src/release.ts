// One release in one cluster, through helm and kubectl: what an upgrade would change, and what it consists of.

import { Failure, type OperationContext, z } from "@exclave/plugin-sdk";
import {
  createKubectl,
  findAccess,
  findChanges,
  isNotKnownYet,
  type Kubectl,
  type KubeObject,
  keyOf,
  type ObjectChange,
  readObjects,
  refOf,
  withMetadata,
} from "@exclave/plugin-sdk/kubernetes";
import type { Config } from "./config.ts";
import { type Capabilities, type Helm, openHelm, type Rendering } from "./helm.ts";
import { isPending, lastWhole, type Revision } from "./release-state.ts";

export type Context = OperationContext<Config>;

export interface Release {
  readonly name: string;
  readonly namespace: string;
  readonly helm: Helm;
  readonly kubectl: Kubectl;
}

/** helm writes as this manager; whoever asks what it would change has to be the same one. */
export const FIELD_MANAGER = "helm";

export async function openRelease(context: Context): Promise<Release> {
  const { config, component } = context;
  const { namespace, timeoutSeconds, historyMax } = config;
  const name = config.release ?? component;
  const environment = findAccess(config.kubeconfig);
  const options = { context, environment, release: name, namespace, timeoutSeconds, historyMax };
  const helm = await openHelm(options);
  return { name, namespace, helm, kubectl: createKubectl(context, { environment, namespace }) };
}

/** The objects of a rendering as helm sends them: with the marks by which it knows its own. */
export function ownObjects(manifest: string, { name, namespace }: Release): KubeObject[] {
  return readObjects(manifest, "the rendered chart").map((object) =>
    withMetadata(object, {
      labels: { "app.kubernetes.io/managed-by": "Helm" },
      annotations: {
        "meta.helm.sh/release-name": name,
        "meta.helm.sh/release-namespace": namespace,
      },
    }),
  );
}

/** Renders a chart for this release, whatever state the release and the cluster are in. */
export async function renderChart(
  { helm, kubectl }: Release,
  chart: string,
  values: string,
  history: readonly Revision[],
): Promise<Rendering> {
  const newest = history.at(-1);
  try {
    const isStuck = newest !== undefined && isPending(newest);
    return await (isStuck ? helm.renderBeside(chart, values) : helm.render(chart, values));
  } catch (reason) {
    // A chart that brings its own kinds can be rendered against a cluster that has them, and not before.
    if (!(reason instanceof Failure) || !isNotKnownYet(reason.message)) throw reason;
    return helm.renderBeside(chart, values, await capabilitiesOf(kubectl));
  }
}

const Version = z.looseObject({ serverVersion: z.looseObject({ gitVersion: z.string() }) });

async function capabilitiesOf(kubectl: Kubectl): Promise<Capabilities> {
  const { stdout } = await kubectl.run(["version", "-o", "json"]);
  const apis = await kubectl.run(["api-versions"]);
  return {
    version: Version.parse(JSON.parse(stdout)).serverVersion.gitVersion,
    apis: apis.stdout.split("\n").filter((api) => api !== ""),
  };
}

/** The definitions that come with a chart and that the cluster does not have; helm changes none that it has. */
export async function missingDefinitions(
  { helm, kubectl }: Release,
  chart: string,
): Promise<KubeObject[]> {
  const definitions = readObjects(await helm.definitions(chart), "the chart's crds");
  const live = await kubectl.live(definitions);
  return definitions.filter((_, index) => live[index] === undefined);
}

/** What sending this rendering would change in the cluster as it is now. */
export async function findReleaseChanges(
  release: Release,
  rendering: Rendering,
  definitions: readonly KubeObject[],
  history: readonly Revision[],
): Promise<ObjectChange[]> {
  const { kubectl, helm } = release;
  const wanted = ownObjects(rendering.manifest, release);
  const live = await kubectl.live(wanted);
  const next = await kubectl.preview(wanted, FIELD_MANAGER);

  // helm takes away what the newest revision has and this one has not, whether that revision was whole or not.
  const known = history.at(-1);
  const whole = lastWhole(history);
  const revisions = [known, whole].filter((one) => one !== undefined);
  const before = new Map<string, KubeObject>();
  for (const { revision } of revisions) {
    for (const object of ownObjects(await helm.manifest(revision), release)) {
      if (!isKept(object)) before.set(keyOf(placed(object, release)), object);
    }
  }
  for (const object of wanted) before.delete(keyOf(placed(object, release)));
  const leftovers = await kubectl.live([...before.values()]);

  return findChanges({
    wanted: [
      ...definitions.map((object) => ({ ref: refOf(object), live: undefined, next: undefined })),
      ...wanted.map((object, index) => {
        const known = live[index] ?? next[index];
        const ref = known ? refOf(known) : placed(object, release);
        return { ref, live: live[index], next: next[index] };
      }),
    ],
    unwanted: leftovers.flatMap((object) => (object ? [refOf(object)] : [])),
  });
}

function placed(object: KubeObject, { namespace }: Release) {
  const ref = refOf(object);
  return { ...ref, namespace: ref.namespace || namespace };
}

/** A chart can ask that helm leaves an object alone for good. */
export function isKept({ metadata }: KubeObject): boolean {
  return metadata.annotations?.["helm.sh/resource-policy"] === "keep";
}
