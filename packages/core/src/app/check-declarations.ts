// What is wrong with the lists of an app beyond their shape: names used twice, defaults that are not
// what they say they are, expressions where none is evaluated.

import { stringsIn } from "../expression/references.ts";
import { suggest } from "../suggest.ts";
import type { Finding } from "./problem.ts";
import { isMapping, rawItems } from "./raw-app.ts";

const LISTS = [
  { list: "inputs", one: "an input", nameKey: "name" },
  { list: "secrets", one: "a secret", nameKey: "name" },
  { list: "plugins", one: "a plugin of type", nameKey: "type" },
  { list: "components", one: "a component", nameKey: "name" },
] as const;

export function checkDeclarations(value: unknown): Finding[] {
  return [
    ...LISTS.flatMap((list) => twice(value, list)),
    ...wrongDefaults(value),
    ...strayExpressions(value),
  ];
}

export function checkSandbox(value: unknown, known: readonly string[] | undefined): Finding[] {
  const sandbox = isMapping(value) ? value["sandbox"] : undefined;
  const use = isMapping(sandbox) ? sandbox["use"] : undefined;
  if (!known || typeof use !== "string" || known.includes(use)) return [];
  const message = `there is no sandbox \`${use}\`; there are ${known.join(", ")}`;
  const hint = suggest(use, known);
  const path = ["sandbox", "use"];
  return [hint ? { path, message, hint } : { path, message }];
}

function twice(value: unknown, { list, one, nameKey }: (typeof LISTS)[number]): Finding[] {
  const seen = new Set<string>();
  return rawItems(value, list, nameKey).flatMap(({ index, name }) => {
    if (name === undefined) return [];
    if (!seen.has(name)) {
      seen.add(name);
      return [];
    }
    return [{ path: [list, index, nameKey], message: `there is already ${one} \`${name}\`` }];
  });
}

function wrongDefaults(value: unknown): Finding[] {
  return rawItems(value, "inputs").flatMap(({ index, item }) => {
    const { type = "string", default: preset } = item;
    if (preset === undefined || typeof preset === type || typeof type !== "string") return [];
    // A default of no simple type at all is the shape's to report.
    if (!["string", "number", "boolean"].includes(typeof preset)) return [];
    const message = `the default must be a ${type}, as the input is`;
    return [{ path: ["inputs", index, "default"], message }];
  });
}

function strayExpressions(value: unknown): Finding[] {
  if (!isMapping(value)) return [];
  const { components: _, ...rest } = value;
  return stringsIn(rest).map(({ path, text }) => ({
    path,
    letter: text.indexOf("${{"),
    message: "expressions are only evaluated in the configuration of components",
  }));
}
