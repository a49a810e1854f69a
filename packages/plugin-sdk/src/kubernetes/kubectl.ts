// A cluster through kubectl, which every version of every cluster has one for. Objects go in by standard input
// and come back as JSON; nothing of them is in an argument or in a file.

import { Failure, type FailureCode } from "@exclave/core";
import type { OperationContext, RunOptions, RunResult } from "../define-plugin.ts";
import type { ClusterEnvironment } from "./cluster-access.ts";
import { type KubeObject, keyOf, objectsIn, refOf } from "./kube-object.ts";

export interface Kubectl {
  /** The namespace of objects that name none. */
  readonly namespace: string;
  /** Each object as it is in the cluster, undefined where it is not there. */
  live(objects: readonly KubeObject[]): Promise<(KubeObject | undefined)[]>;
  /** Each object as it would be after an apply, undefined where the cluster cannot tell yet. */
  preview(objects: readonly KubeObject[], manager: string): Promise<(KubeObject | undefined)[]>;
  apply(objects: readonly KubeObject[], manager: string): Promise<void>;
  /** Deletes what is there of these, and returns once it is gone. */
  delete(objects: readonly KubeObject[], timeoutSeconds: number): Promise<void>;
  /** What kubectl prints as JSON, as objects. */
  get(args: readonly string[]): Promise<KubeObject[]>;
  run(args: readonly string[], options?: RunOptions): Promise<RunResult>;
}

type Host = Pick<OperationContext, "run">;

export function createKubectl(
  context: Host,
  { environment, namespace }: { environment: ClusterEnvironment; namespace: string },
): Kubectl {
  return { namespace, live, preview, apply, delete: remove, get, run };

  async function run(args: readonly string[], options: RunOptions = {}): Promise<RunResult> {
    return context
      .run("kubectl", args, { echo: false, ...options, environment })
      .catch((reason: unknown) => {
        throw missingProgram(reason, "kubectl");
      });
  }

  async function live(objects: readonly KubeObject[]): Promise<(KubeObject | undefined)[]> {
    return eachNamespace(objects, namespace, async (place, some) => {
      const args = ["get", ...place, "--ignore-not-found", "-o", "json", "-f", "-"];
      const { exitCode, stdout, stderr } = await run(args, {
        input: documents(some),
        allowExitCodes: "any",
      });
      if (exitCode !== 0) refuseUnless(isNotKnownYet, "read objects", stderr);
      return parse(stdout);
    });
  }

  async function preview(objects: readonly KubeObject[], manager: string) {
    return eachNamespace(objects, namespace, async (place, some) => {
      const { exitCode, stdout, stderr } = await serverSideApply(place, some, manager, [
        "--dry-run=server",
      ]);
      if (exitCode === 0) return parse(stdout);
      refuseUnless(isNotKnownYet, "apply", stderr);
      // kubectl shows nothing once one object has a problem, so that each has to be asked for by itself.
      if (some.length === 1) return [];
      const each: KubeObject[] = [];
      for (const one of some) {
        const alone = await serverSideApply(place, [one], manager, ["--dry-run=server"]);
        if (alone.exitCode === 0) each.push(...parse(alone.stdout));
        else refuseUnless(isNotKnownYet, "apply", alone.stderr);
      }
      return each;
    });
  }

  async function apply(objects: readonly KubeObject[], manager: string): Promise<void> {
    await eachNamespace(objects, namespace, async (place, some) => {
      const { exitCode, stderr } = await serverSideApply(place, some, manager, []);
      if (exitCode !== 0) refuseUnless(() => false, "apply", stderr);
      return [];
    });
  }

  function serverSideApply(
    place: readonly string[],
    objects: readonly KubeObject[],
    manager: string,
    more: readonly string[],
  ): Promise<RunResult> {
    const args = ["apply", ...place, "--server-side", "--force-conflicts", ...more];
    return run([...args, `--field-manager=${manager}`, "-o", "json", "-f", "-"], {
      input: documents(objects),
      allowExitCodes: "any",
    });
  }

  async function remove(objects: readonly KubeObject[], timeoutSeconds: number): Promise<void> {
    await eachNamespace(objects, namespace, async (place, some) => {
      const args = ["delete", ...place, "--ignore-not-found", "--cascade=foreground", "--wait"];
      const { exitCode, stderr } = await run([...args, `--timeout=${timeoutSeconds}s`, "-f", "-"], {
        input: documents(some),
        allowExitCodes: "any",
      });
      if (exitCode !== 0) refuseUnless(isNotKnownYet, "delete", stderr);
      return [];
    });
  }

  async function get(args: readonly string[]): Promise<KubeObject[]> {
    const { exitCode, stdout, stderr } = await run(["get", ...args, "-o", "json"], {
      allowExitCodes: "any",
    });
    if (exitCode !== 0) refuseUnless(() => false, "read", stderr);
    return parse(stdout);
  }
}

type SomeObjects = (
  place: readonly string[],
  some: readonly KubeObject[],
) => Promise<readonly KubeObject[]>;

/** One call a namespace: kubectl takes one, and refuses objects of another. Each wanted object gets what was found of it. */
async function eachNamespace(
  objects: readonly KubeObject[],
  namespace: string,
  work: SomeObjects,
): Promise<(KubeObject | undefined)[]> {
  const groups = Map.groupBy(objects, ({ metadata }) => metadata.namespace ?? namespace);
  const known = new Map<string, KubeObject>();
  for (const [name, some] of groups) {
    for (const object of await work(["--namespace", name], some)) {
      known.set(keyOf(refOf(object)), object);
    }
  }
  return objects.map((object) => {
    const ref = refOf(object);
    const placed = { ...ref, namespace: ref.namespace || namespace };
    // What lies in no namespace comes back without one.
    return known.get(keyOf(placed)) ?? known.get(keyOf({ ...ref, namespace: "" }));
  });
}

/** A missing program is no fault of the vendor's: the machine lacks it. */
export function missingProgram(reason: unknown, program: string): unknown {
  if (!(reason instanceof Failure) || !reason.message.startsWith("there is no program"))
    return reason;
  return new Failure("unavailable", `${program} is not on the PATH of this machine`, {
    cause: reason,
  });
}

/** One after the other and no list: in a list, one object of a kind that is not known yet spoils all. */
function documents(objects: readonly KubeObject[]): string {
  return objects.map((object) => JSON.stringify(object)).join("\n");
}

function parse(text: string): KubeObject[] {
  return text.trim() === "" ? [] : objectsIn(JSON.parse(text), "what kubectl printed");
}

/** Its namespace or its kind comes with the same apply. */
export function isNotKnownYet(line: string): boolean {
  return (
    /namespaces "[^"]+" not found/.test(line) ||
    /no matches for kind/.test(line) ||
    /ensure CRDs are installed first/.test(line) ||
    /the server could not find the requested resource/.test(line) ||
    /doesn't have a resource type/.test(line)
  );
}

function refuseUnless(isFine: (line: string) => boolean, what: string, stderr: string): void {
  const lines = stderr
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("Warning:") && !isFine(line));
  if (lines.length > 0) throw clusterFailure(`cannot ${what}`, lines);
}

/** What kubectl and helm say, by who has to act on it; the first that fits counts. */
const SAID: readonly (readonly [RegExp, FailureCode])[] = [
  [/refused - did you specify|connection refused|unable to connect|unreachable/i, "unavailable"],
  [/i\/o timeout|no route to host|TLS handshake timeout/i, "unavailable"],
  [/\(Forbidden\)|is forbidden/i, "forbidden"],
  [/Unauthorized|must be logged in/i, "unauthenticated"],
  [/timed out waiting/i, "timeout"],
  [/is invalid|ValidationError|unknown field|is immutable|BadRequest/i, "invalid"],
];
const SAID_CHARS = 4_000;

export function clusterFailure(what: string, lines: readonly string[]): Failure {
  const said = lines.join("; ").slice(0, SAID_CHARS);
  const [, code = "tool"] = SAID.find(([pattern]) => pattern.test(said)) ?? [];
  return new Failure(code, `${what}: ${said}`);
}
