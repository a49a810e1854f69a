// Reads exclave.yaml into a checked value, or into everything that is wrong with it: all at once,
// each with its place and, where a name was misspelt, what was probably meant.

import { usesOf } from "../expression/references.ts";
import { Failure } from "../failure.ts";
import type { AppName, ComponentName } from "../ids.ts";
import { PROBLEMS_MAX } from "../limits.ts";
import { declaredLimits } from "../manifest/job-limits.ts";
import type { PluginDescriptor } from "../plugin-descriptor.ts";
import {
  type AppConfig,
  AppDeclaration,
  type ComponentConfig,
  type ComponentDeclaration,
  configOf,
} from "./app-config.ts";
import { checkComponents } from "./check-components.ts";
import { checkDeclarations, checkSandbox } from "./check-declarations.ts";
import type { Finding, Problem } from "./problem.ts";
import { shapeProblems } from "./shape-problems.ts";
import { readYaml, type YamlSource } from "./yaml-source.ts";

const TEXT_SHOWN_MAX = 1_000;

export interface ParseAppOptions {
  /** How problems name the file. */
  readonly file: string;
  /** The component types there are. Without them, what only a plugin knows is not checked. */
  readonly plugins?: readonly PluginDescriptor[];
  /** The sandboxes there are. Without them, any name is taken. */
  readonly sandboxes?: readonly string[];
}

export interface ParsedApp {
  /** Set when there is no problem. */
  readonly app?: AppConfig;
  readonly problems: readonly Problem[];
}

export function parseApp(text: string, options: ParseAppOptions): ParsedApp {
  const { file, plugins, sandboxes } = options;
  const source = readYaml(text, file);
  if (source.problems.length > 0) return { problems: source.problems };

  const { value } = source;
  const shape = AppDeclaration.safeParse(value);
  const findings = [
    ...(shape.success ? [] : shapeProblems(shape.error, value)),
    ...checkDeclarations(value),
    ...checkSandbox(value, sandboxes),
    ...boundedFindings(() => checkComponents(value, plugins)),
  ];
  if (shape.success && findings.length === 0) return { app: appFrom(shape.data), problems: [] };
  return { problems: placed(findings.slice(0, PROBLEMS_MAX), source, file) };
}

/** What is too much to be checked is a problem like any other. */
function boundedFindings(check: () => Finding[]): Finding[] {
  try {
    return check();
  } catch (reason) {
    if (!(reason instanceof Failure) || reason.code !== "too_large") throw reason;
    return [{ path: [], message: reason.message }];
  }
}

/** Names come from the file and may be of any length: whoever reads the problem knows them. */
function shortened(text: string): string {
  return text.length > TEXT_SHOWN_MAX ? `${text.slice(0, TEXT_SHOWN_MAX)}…` : text;
}

function placed(findings: readonly Finding[], source: YamlSource, file: string): Problem[] {
  const problems = findings.map((finding): Problem => {
    const { path, message, hint, key, letter } = finding;
    const place =
      key !== undefined
        ? source.atKey(path, key)
        : letter !== undefined
          ? source.atLetter(path, letter)
          : source.at(path);
    const fullPath = key === undefined ? path : [...path, key];
    const steps = fullPath.map((step) => (typeof step === "string" ? shortened(step) : step));
    const problem = { file, ...place, message: shortened(message), path: steps };
    return hint === undefined ? problem : { ...problem, hint: shortened(hint) };
  });
  return problems.toSorted((a, b) => a.line - b.line || a.column - b.column);
}

type Declared = ReturnType<typeof AppDeclaration.parse>;

function appFrom({
  app,
  description,
  sandbox,
  inputs,
  secrets,
  rollback,
  plugins,
  components,
}: Declared): AppConfig {
  return {
    app: app satisfies AppName,
    ...(description === undefined ? {} : { description }),
    sandbox,
    inputs,
    secrets,
    rollback,
    plugins,
    components: components.map(componentFrom),
  };
}

function componentFrom(declared: ComponentDeclaration): ComponentConfig {
  const { name, type, source, dependsOn, statusEverySeconds, limits, network, repair } = declared;
  const config = configOf(declared);
  const uses = usesOf(config);
  // Every name in it was found among the components, whose names were parsed.
  const components = uses.components as readonly ComponentName[];
  return {
    name,
    type,
    ...(source === undefined ? {} : { source }),
    dependsOn,
    ...(statusEverySeconds === undefined ? {} : { statusEverySeconds }),
    ...(limits === undefined ? {} : { limits: declaredLimits(limits) }),
    ...(network === undefined ? {} : { network }),
    ...(repair === undefined ? {} : { repair }),
    config,
    uses: { ...uses, components },
    needs: [...new Set([...dependsOn, ...components])],
  };
}
