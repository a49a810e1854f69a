// Deploys a Helm chart that lies in the component's artifact. What is applied is exactly what the plan rendered;
// a release that was left half-done is put in order first, and one that does not become ready is rolled back.

import { readFile } from "node:fs/promises";
import { definePlugin, Failure, z } from "@exclave/plugin-sdk";
import {
  changeFacts,
  checkChanges,
  describeChanges,
  digestOf,
  execInPod,
  explain,
  forgetNamespace,
  keepNamespace,
  type ObjectChange,
  showLogs,
  statusOf,
  summariseChanges,
  waitUntilGone,
  waitUntilReady,
} from "@exclave/plugin-sdk/kubernetes";
import { buildChart, chartIn } from "./build-chart.ts";
import { Config } from "./config.ts";
import { freezeChart } from "./frozen-chart.ts";
import { checkPlan, HelmPlan } from "./helm-plan.ts";
import {
  type Context,
  FIELD_MANAGER,
  findReleaseChanges,
  isKept,
  missingDefinitions,
  openRelease,
  ownObjects,
  type Release,
  renderChart,
} from "./release.ts";
import { decideAfterFailure, decideHealing, isPending, type Revision } from "./release-state.ts";

const ApplyParameters = z.object({ planFile: z.string().optional() });

/** On every revision: by it a later job knows that a revision is this component's own. */
const OWNER_LABEL = "exclave.dev/component";

export const plugin = definePlugin({
  type: "helm",
  description: "A Helm chart, deployed into a Kubernetes cluster by helm",
  config: Config,
  outputs: {
    release: { type: "string", description: "The name of the release", sensitive: false },
    namespace: { type: "string", description: "Where it lives", sensitive: false },
    revision: { type: "number", description: "Which revision was applied last", sensitive: false },
  },
  source: "required",
  tools: ["helm", "kubectl"],
  artifactFor: { destroy: "ignored", status: "ignored", logs: "ignored", exec: "ignored" },
  // A plan is good for one apply, and helm refuses two at once on one release.
  effects: { apply: "fenced", destroy: "fenced" },

  build: buildChart,

  async plan(context) {
    const release = await openRelease(context);
    const { plan, changes } = await makePlan(context, release);
    for (const line of describeChanges(changes)) context.log(line);
    const file = await context.writeFile("plan.json", JSON.stringify(plan));
    return { file, ...summarisePlan(plan, changes) };
  },

  async apply(context) {
    const release = await openRelease(context);
    const { planFile } = ApplyParameters.parse(context.parameters);
    const plan = planFile
      ? HelmPlan.parse(JSON.parse(await readFile(planFile, "utf8")))
      : (await makePlan(context, release)).plan;

    const history = await release.helm.history();
    const { values } = context.config;
    checkPlan(plan, { release: release.name, namespace: release.namespace, values, history });
    const definitions = await missingDefinitions(release, await chartIn(context.files));
    const changes = await findReleaseChanges(release, plan.rendering, definitions, history);
    checkChanges(plan.changes, changeFacts(changes));

    await keepNamespace(context, release.kubectl);
    await heal(context, release, history);
    if (definitions.length > 0) {
      await release.kubectl.apply(definitions, FIELD_MANAGER);
      await waitUntilReady(release.kubectl, definitions, waitOf(context));
    }
    const revision = await upgrade(context, release, plan);
    for (const { object, action } of changes) {
      const done = action === "create" ? "created" : action === "delete" ? "destroyed" : "changed";
      context.resource(done, object.kind, object.name);
    }
    context.output("release", release.name);
    context.output("namespace", release.namespace);
    context.output("revision", revision);
  },

  async destroy(context) {
    const release = await openRelease(context);
    const history = await release.helm.history();
    const objects = await objectsOf(release, history);
    if (history.length === 0) context.log("there is no release to uninstall");
    else await uninstall(context, release);
    for (const { kind, metadata } of objects) context.resource("destroyed", kind, metadata.name);
    await forgetNamespace(context, release.kubectl);
  },

  async status(context) {
    const release = await openRelease(context);
    const history = await release.helm.history();
    const newest = history.at(-1);
    if (!newest) return { health: "missing", because: `there is no release ${release.name}` };
    if (isPending(newest)) {
      const because = `helm was interrupted: revision ${newest.revision} is ${newest.status}`;
      return { health: "degraded", because };
    }
    const status = await statusOf(
      release.kubectl,
      await objectsOf(release, history),
      FIELD_MANAGER,
    );
    if (newest.status === "deployed" || status.health !== "healthy") return status;
    return {
      ...status,
      health: "degraded",
      because: `revision ${newest.revision} is ${newest.status}`,
    };
  },

  async logs(context) {
    const release = await openRelease(context);
    const objects = await objectsOf(release, await release.helm.history());
    await showLogs(context, release.kubectl, await release.kubectl.live(objects));
  },

  async exec(context) {
    const release = await openRelease(context);
    const objects = await objectsOf(release, await release.helm.history());
    return execInPod(context, release.kubectl, await release.kubectl.live(objects));
  },
});

async function makePlan(context: Context, release: Release) {
  const { helm } = release;
  const chart = await chartIn(context.files);
  const values = await writeValues(context);
  const history = await helm.history();
  const newest = history.at(-1);
  const rendering = await renderChart(release, chart, values, history);
  const definitions = await missingDefinitions(release, chart);
  const changes = await findReleaseChanges(release, rendering, definitions, history);
  const plan: HelmPlan = {
    version: 1,
    release: release.name,
    namespace: release.namespace,
    ...(newest && { base: { revision: newest.revision, status: newest.status } }),
    valuesDigest: digestOf(context.config.values),
    renderedDigest: digestOf(rendering),
    changes: changeFacts(changes),
    rendering: { manifest: rendering.manifest, hooks: [...rendering.hooks] },
  };
  return { plan, changes };
}

function summarisePlan({ base }: HelmPlan, changes: readonly ObjectChange[]) {
  const { risk, summary } = summariseChanges(changes);
  if (base?.status === "deployed") return { risk, summary };
  const what = base ? `revision ${base.revision} is ${base.status}` : "a new release";
  // Also without a change of an object, there is a release to make or to mend.
  return { risk: risk === "none" ? ("change" as const) : risk, summary: `${summary}; ${what}` };
}

/** In a file that only the job can read: values hold secrets and a process list is no place for them. */
function writeValues(context: Context): Promise<string> {
  return context.writeFile("values.json", JSON.stringify(context.config.values));
}

/** Returns once everything is gone that is not to be kept: helm's own wait ends before that. */
async function uninstall(context: Context, release: Release): Promise<void> {
  const objects = await objectsOf(release, await release.helm.history());
  await release.helm.uninstall();
  const going = objects.filter((object) => !isKept(object));
  await waitUntilGone(release.kubectl, going, waitOf(context));
}

function waitOf({ config, signal }: Context) {
  return { timeoutSeconds: config.timeoutSeconds, signal };
}

/** Everything the newest revision consists of, hooks aside. */
async function objectsOf(release: Release, history: readonly Revision[]) {
  const newest = history.at(-1);
  if (!newest) return [];
  return ownObjects(await release.helm.manifest(newest.revision), release);
}

async function heal(context: Context, release: Release, history: readonly Revision[]) {
  const newest = history.at(-1);
  const isOurs =
    newest !== undefined &&
    isPending(newest) &&
    (await release.helm.labels(newest.revision))[OWNER_LABEL] === ownerOf(context);
  const healing = decideHealing({ history, isOurs });
  switch (healing.kind) {
    case "none":
      return;
    case "foreign":
      throw new Failure("conflict", healing.because);
    case "uninstall":
      context.log(`${healing.because}: it is uninstalled first`, "warn");
      return uninstall(context, release);
    case "rollback":
      context.log(`${healing.because}: it is rolled back to ${healing.to} first`, "warn");
      return release.helm.rollback(healing.to);
  }
}

async function upgrade(context: Context, release: Release, plan: HelmPlan): Promise<number> {
  const { helm, kubectl } = release;
  const frozen = `${context.workDirectory}/frozen`;
  const chart = await freezeChart(await chartIn(context.files), plan.rendering, frozen);
  const before = await helm.history();
  try {
    const labels = { [OWNER_LABEL]: ownerOf(context) };
    return await helm.upgrade(chart, await writeValues(context), labels);
  } catch (reason) {
    // Asked to stop: the next apply finds it pending and mends it.
    if (context.signal.aborted) throw reason;
    const live = await kubectl.live(ownObjects(plan.rendering.manifest, release)).catch(() => []);
    const why = await explain(kubectl, live).catch(() => "");
    const said = reason instanceof Error ? reason.message : String(reason);
    context.log(`the upgrade failed: ${said}`, "error");
    const end = await undo(context, release, before);
    throw new Failure("tool", `the release did not become ready${end}: ${why || said}`, {
      cause: reason,
    });
  }
}

/** Says what became of the release. */
async function undo(context: Context, release: Release, before: readonly Revision[]) {
  const { helm } = release;
  const next = decideAfterFailure(before, await helm.history());
  if (next.kind === "leave") return "";
  if (next.kind === "uninstall") {
    context.log("there is no revision to go back to: the release is uninstalled", "warn");
    await uninstall(context, release);
    return " and was uninstalled";
  }
  context.log(`the release is rolled back to revision ${next.to}`, "warn");
  await helm.rollback(next.to);
  return ` and was rolled back to revision ${next.to}`;
}

/** As a label may spell it. */
function ownerOf({ installId, component }: Context): string {
  return `${installId}.${component}`.slice(0, 63);
}
