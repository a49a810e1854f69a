// The helm program on one release. Values and rendered manifests go through files and output that nobody else
// sees; what helm says while it works becomes log lines.

import {
  Failure,
  type OperationContext,
  type RunOptions,
  type RunResult,
  z,
} from "@exclave/plugin-sdk";
import {
  type ClusterEnvironment,
  clusterFailure,
  missingProgram,
} from "@exclave/plugin-sdk/kubernetes";
import { Revision } from "./release-state.ts";

const Hook = z.looseObject({ manifest: z.string() });
const Rendered = z.looseObject({
  manifest: z.string(),
  hooks: z.array(Hook).nullish(),
});
/** Newest last. */
const History = z.array(Revision);
const Metadata = z.looseObject({ labels: z.record(z.string(), z.string()).nullish() });
const Upgraded = z.looseObject({ version: z.int().positive() });

export interface Rendering {
  readonly manifest: string;
  readonly hooks: readonly string[];
}

/** What a chart can ask about the cluster. */
export interface Capabilities {
  readonly version: string;
  readonly apis: readonly string[];
}

export interface Helm {
  /** Newest last; empty where there is no such release. */
  history(): Promise<Revision[]>;
  labels(revision: number): Promise<Readonly<Record<string, string>>>;
  /** What an upgrade would send to the cluster. */
  render(chart: string, values: string): Promise<Rendering>;
  /**
   * The same where helm refuses to try an upgrade: because the one before it was interrupted, or because the
   * cluster lacks a kind that comes with the chart, and then with what the cluster is said to know.
   */
  renderBeside(chart: string, values: string, capabilities?: Capabilities): Promise<Rendering>;
  /** The definitions of kinds that come with the chart. */
  definitions(chart: string): Promise<string>;
  manifest(revision: number): Promise<string>;
  /** The new revision. */
  upgrade(chart: string, values: string, labels: Readonly<Record<string, string>>): Promise<number>;
  rollback(revision: number): Promise<void>;
  uninstall(): Promise<void>;
}

export interface HelmOptions {
  readonly context: OperationContext<unknown>;
  readonly environment: ClusterEnvironment;
  readonly release: string;
  readonly namespace: string;
  readonly timeoutSeconds: number;
  readonly historyMax: number;
}

const MAJOR = 4;

export async function openHelm(options: HelmOptions): Promise<Helm> {
  const { context, release, namespace } = options;
  const place = ["--namespace", namespace];
  const timeout = `--timeout=${options.timeoutSeconds}s`;
  const wait = ["--wait=watcher", "--wait-for-jobs", timeout];
  // What others wrote into objects of the release is shown by the plan, and then overwritten.
  const force = ["--server-side=true", "--force-conflicts"];
  const history = `--history-max=${options.historyMax}`;
  const program = createProgram(context, options.environment);
  const { run, ask, work } = program;
  await program.refuseOtherMajor();

  return {
    history: readHistory,
    async labels(revision) {
      const args = ["get", "metadata", release, ...place, `--revision=${revision}`, "-o", "json"];
      return Metadata.parse(await ask("read its labels", args)).labels ?? {};
    },
    async render(chart, values) {
      const args = ["upgrade", release, chart, "--install", ...place, ...force, "--values", values];
      const dry = ["--dry-run=server", "--hide-notes", "-o", "json"];
      const { manifest, hooks } = Rendered.parse(await ask("render the chart", [...args, ...dry]));
      return { manifest, hooks: (hooks ?? []).map((hook) => hook.manifest) };
    },
    async renderBeside(chart, values, capabilities) {
      const args = ["template", release, chart, ...place, "--values", values];
      const upgrading = (await readHistory()).length > 0 ? ["--is-upgrade"] : [];
      const mode = capabilities
        ? [
            "--dry-run=client",
            `--kube-version=${capabilities.version}`,
            ...capabilities.apis.flatMap((api) => ["--api-versions", api]),
          ]
        : ["--dry-run=server"];
      const all = [...args, ...upgrading, ...mode];
      const whole = await run("render the chart", all);
      const { stdout } = await run("render the chart", [...all, "--no-hooks"]);
      return { manifest: stdout, hooks: hooksBeyond(whole.stdout, stdout) };
    },
    async definitions(chart) {
      return (await run("read the chart", ["show", "crds", chart])).stdout;
    },
    async manifest(revision) {
      const args = ["get", "manifest", release, ...place, `--revision=${revision}`];
      return (await run("read the release", args)).stdout;
    },
    async upgrade(chart, values, labels) {
      const said = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
      const args = ["upgrade", release, chart, "--install", ...place, ...wait, ...force, history];
      const more = ["--values", values, `--labels=${said.join(",")}`, "--hide-notes", "-o", "json"];
      const { stdout } = await work("upgrade", [...args, ...more]);
      return Upgraded.parse(JSON.parse(stdout)).version;
    },
    async rollback(revision) {
      await work("roll back", [
        "rollback",
        release,
        String(revision),
        ...place,
        ...wait,
        ...force,
        history,
      ]);
    },
    async uninstall() {
      const args = ["uninstall", release, ...place, "--wait=watcher", timeout];
      await work("uninstall", [...args, "--ignore-not-found", "--cascade=foreground"]);
    },
  };

  async function readHistory(): Promise<Revision[]> {
    const args = ["history", release, ...place, "--max=256", "-o", "json"];
    const { exitCode, stdout, stderr } = await program.call(args, { allowExitCodes: [0, 1] });
    if (exitCode === 0) return History.parse(JSON.parse(stdout));
    if (/release: not found/.test(stderr)) return [];
    throw clusterFailure("cannot read the release", errorLines(stderr));
  }
}

/** The program itself, with nothing of the machine's own helm: no plugins, no repositories, no logins. */
function createProgram(context: OperationContext<unknown>, access: ClusterEnvironment) {
  const place = `${context.workDirectory}/helm`;
  const environment = {
    ...access,
    HELM_CACHE_HOME: `${place}/cache`,
    HELM_CONFIG_HOME: `${place}/config`,
    HELM_DATA_HOME: `${place}/data`,
  };

  return { call, run, ask, work, refuseOtherMajor };

  function call(args: readonly string[], more: RunOptions): Promise<RunResult> {
    return context.run("helm", args, { echo: false, ...more, environment }).catch((reason) => {
      throw missingProgram(reason, "helm");
    });
  }

  async function run(what: string, args: readonly string[], more: RunOptions = {}) {
    const result = await call(args, { allowExitCodes: [0, 1], ...more });
    if (result.exitCode === 0) return result;
    throw clusterFailure(`cannot ${what}`, errorLines(result.stderr));
  }

  async function ask(what: string, args: readonly string[]): Promise<unknown> {
    return JSON.parse((await run(what, args)).stdout);
  }

  /** Says what helm says; its answer on stdout holds the whole release and is not shown. */
  function work(what: string, args: readonly string[]): Promise<RunResult> {
    return run(what, args, {
      echo: true,
      onLine: (line, stream) => {
        if (stream === "stderr" && line.trim() !== "") context.log(readable(line));
      },
    });
  }

  async function refuseOtherMajor(): Promise<void> {
    const { stdout } = await call(["version", "--template", "{{.Version}}"], {});
    const major = Number(/^v?(\d+)\./.exec(stdout.trim())?.[1]);
    if (major === MAJOR) return;
    const message = `helm ${stdout.trim()} is on the PATH of this machine, and this needs helm ${MAJOR}`;
    throw new Failure("unavailable", message);
  }
}

/** A log line of helm without its time and level, which the job's own log has. */
function readable(line: string): string {
  return /msg="?(.*?)"?(?: \w+=.*)?$/.exec(line)?.[1] ?? line;
}

/** helm ends with one line that says why; everything before it was said while it worked. */
function errorLines(stderr: string): string[] {
  const lines = stderr.split("\n").filter((line) => line.trim() !== "");
  const at = lines.findLastIndex((line) => line.startsWith("Error:"));
  return (at < 0 ? lines.slice(-3) : lines.slice(at)).map((line) => line.replace(/^Error: /, ""));
}

/** The documents that are only in the longer of two renderings. */
function hooksBeyond(all: string, without: string): string[] {
  const known = new Set(without.split(/^---\n/m).map((text) => text.trim()));
  return all
    .split(/^---\n/m)
    .map((text) => text.trim())
    .filter((text) => text !== "" && !known.has(text));
}
