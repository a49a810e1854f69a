// The manifests of a component: from its source at build time, where a kustomization is rendered once and for
// all, and from its artifact in an install, where variables get their values.

import { access, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join, normalize, sep } from "node:path";
import { type BuildResult, Failure, type OperationContext } from "@exclave/plugin-sdk";
import { type KubeObject, missingProgram, readObjects } from "@exclave/plugin-sdk/kubernetes";
import type { Config } from "./config.ts";

const KUSTOMIZATIONS = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

export async function buildManifests(context: OperationContext<Config>): Promise<BuildResult> {
  const source = directoryIn(context.files, context.config.path);
  const isKustomization = await anyThere(KUSTOMIZATIONS.map((name) => join(source, name)));
  const directory = join(context.workDirectory, "manifests");
  await mkdir(directory, { recursive: true });
  const text = isKustomization ? await kustomize(context, source) : await readTexts(source);
  if (readObjects(text, "the source").length === 0) {
    throw new Failure("invalid", "the source has no Kubernetes object in it");
  }
  await writeFile(join(directory, "manifests.yaml"), text);
  return { kind: "manifests", directory };
}

/** The objects in an artifact, with the values of the variables. */
export async function readManifests(context: OperationContext<Config>): Promise<KubeObject[]> {
  const objects = readObjects(await readTexts(context.files), "the artifact");
  if (objects.length === 0) throw new Failure("invalid", "the artifact has no object in it");
  return objects.map((object) => substitute(object, context.config.variables) as KubeObject);
}

type Variables = Config["variables"];

/** Replaces `${NAME}` in every text; a text that is nothing else takes the value's own type. */
export function substitute(value: unknown, variables: Variables): unknown {
  if (typeof value === "string") return substituteText(value, variables);
  if (Array.isArray(value)) return value.map((item) => substitute(item, variables));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, substitute(inner, variables)]),
  );
}

function substituteText(text: string, variables: Variables): unknown {
  const whole = /^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$/.exec(text)?.[1];
  if (whole !== undefined && Object.hasOwn(variables, whole)) return variables[whole];
  return text.replaceAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (found, name: string) =>
    Object.hasOwn(variables, name) ? String(variables[name]) : found,
  );
}

async function kustomize(context: OperationContext<Config>, directory: string): Promise<string> {
  const { stdout } = await context
    .run("kubectl", ["kustomize", directory], { echo: false })
    .catch((reason: unknown) => {
      throw missingProgram(reason, "kubectl");
    });
  return stdout;
}

/** Every manifest below a directory as one text, in the order of their names. */
async function readTexts(directory: string): Promise<string> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile() && /\.(ya?ml|json)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
  const texts = await Promise.all(files.map((file) => readFile(file, "utf8")));
  return texts.join("\n---\n");
}

function directoryIn(files: string, path: string | undefined): string {
  if (path === undefined) return files;
  const relative = normalize(path);
  if (relative.startsWith(sep) || relative.split(sep).includes("..")) {
    throw new Failure("invalid", `path: ${JSON.stringify(path)} is outside the source`);
  }
  return join(files, relative);
}

async function anyThere(paths: readonly string[]): Promise<boolean> {
  const found = await Promise.all(
    paths.map((path) =>
      access(path).then(
        () => true,
        () => false,
      ),
    ),
  );
  return found.includes(true);
}
