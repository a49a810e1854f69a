// What can be known to be wrong with an expression before anything runs: names nobody declared,
// outputs a plugin does not have, operators that do not fit their operands.

import type { Environment } from "@marcbachmann/cel-js";
import { unreachable } from "../failure.ts";
import { suggest } from "../suggest.ts";
import { createDialect, SCOPE_NAMES } from "./cel.ts";
import { type Reference, references } from "./references.ts";
import { expressionsOf, parseTemplate, type TemplateProblem } from "./template.ts";

/** What an expression can say of the install. */
const INSTALL_NAMES: readonly string[] = ["id", "name"];

export type ValueType = "string" | "number" | "boolean" | "any";

/** The names an expression may use. */
export interface Declarations {
  readonly inputs: ReadonlyMap<string, ValueType>;
  readonly secrets: ReadonlySet<string>;
  /** Outputs by component; `open` where only the install will know them. */
  readonly components: ReadonlyMap<string, ReadonlyMap<string, ValueType> | "open">;
}

export type TemplateChecker = (text: string) => TemplateProblem[];

/** A checker for many strings over the same declarations. */
export function createTemplateChecker(declared: Declarations): TemplateChecker {
  const dialect = typedDialect(declared);

  return (text) => {
    const template = parseTemplate(text);
    const found = references(template);
    const named = found.references.flatMap((reference) => checkReference(reference, declared));
    const problems = [...template.problems, ...found.problems, ...named];
    // A wrong name would only be reported a second time, in the type checker's words.
    return problems.length > 0 ? problems : checkTypes(template, dialect);
  };
}

function checkReference(reference: Reference, declared: Declarations): TemplateProblem[] {
  const { offset } = reference;
  switch (reference.kind) {
    case "component": {
      const outputs = declared.components.get(reference.name);
      if (!outputs)
        return [unknownName(offset, "component", reference.name, declared.components.keys())];
      const { output, outputOffset = offset } = reference;
      if (outputs === "open" || output === undefined || outputs.has(output)) return [];
      return [unknownName(outputOffset, `output of ${reference.name}`, output, outputs.keys())];
    }
    case "input":
      if (declared.inputs.has(reference.name)) return [];
      return [unknownName(offset, "input", reference.name, declared.inputs.keys())];
    case "secret":
      if (declared.secrets.has(reference.name)) return [];
      return [unknownName(offset, "secret", reference.name, declared.secrets)];
    case "unknown":
      return [unknownName(offset, "name", reference.name, SCOPE_NAMES)];
    case "install": {
      const [name] = reference.path;
      if (name === undefined || INSTALL_NAMES.includes(name)) return [];
      return [unknownName(offset, "value of the install", name, INSTALL_NAMES)];
    }
    case "sandbox":
      return [];
    default:
      return unreachable(reference);
  }
}

function unknownName(
  offset: number,
  what: string,
  name: string,
  known: Iterable<string>,
): TemplateProblem {
  const hint = suggest(name, known);
  const message = `there is no ${what} \`${name}\``;
  return hint ? { offset, message, hint } : { offset, message };
}

function checkTypes(template: ReturnType<typeof parseTemplate>, dialect: Environment) {
  return expressionsOf(template).flatMap(({ source, offset }) => {
    const { error } = dialect.check(source);
    if (!error) return [];
    return [{ offset: offset + (error.range?.start ?? 0), message: error.summary }];
  });
}

const CEL_TYPES = { string: "string", number: "double", boolean: "bool", any: "dyn" } as const;

function typedDialect({ inputs, secrets, components }: Declarations): Environment {
  const dialect = createDialect(false);
  dialect.registerVariable("install", "map").registerVariable("sandbox", "map");
  registerMembers(dialect, "inputs", celTypes(inputs));
  registerMembers(
    dialect,
    "secrets",
    Object.fromEntries([...secrets].map((name) => [name, "string"])),
  );

  const outputs = [...components].map(([name, declared]) => {
    const isOpen = declared === "open" || declared.size === 0;
    return [name, { outputs: isOpen ? "map" : celTypes(declared) }] as const;
  });
  registerMembers(dialect, "components", Object.fromEntries(outputs));
  return dialect;
}

type Members = Record<string, string | { outputs: string | Record<string, string> }>;

function registerMembers(dialect: Environment, name: string, schema: Members): void {
  // A schema without members is none to the library; nothing can be read from it anyway.
  if (Object.keys(schema).length === 0) dialect.registerVariable(name, "map");
  else dialect.registerVariable({ name, schema });
}

function celTypes(types: ReadonlyMap<string, ValueType>): Record<string, string> {
  return Object.fromEntries([...types].map(([name, type]) => [name, CEL_TYPES[type]]));
}
