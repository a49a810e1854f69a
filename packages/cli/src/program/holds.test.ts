// Every hold ends by itself, or names the one command that ends it. Holds are made where the planner
// decides, by the functions of `hold.ts` alone, so that all of them can be listed here.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type CommandNode, commandTree, flatten } from "./command-tree.ts";
import { createProgram } from "./program.ts";

const ROOT = join(import.meta.dirname, "../../../..");
const PLACES = ["packages/core/src/plan/*.ts", "packages/server/src/install/*.ts"];

/** What comes without anybody's doing, and why it does. */
const BY_ITSELF: Record<string, string> = {
  "the job ends": "a job ends by its deadline at the latest",
  "the sync ends": "a sync is a job",
  "the sync has brought it": "the sync is a step of the same plan, or has a hold of its own",
  "# is deployed": "that component is planned, or has a hold of its own",
  "# is applied again": "that apply is a step of the same plan, or has a hold of its own",
  "# is destroyed": "that component is planned, or has a hold of its own",
  "# is deployed without it": "that component is planned, or has a hold of its own",
  "the agent's inventory has come": "a connected agent sends it when it is welcomed",
  "the setup agent connects": "whoever runs the setup agent keeps it up, and it reconnects",
};

const sources = PLACES.flatMap((pattern) => globSync(pattern, { cwd: ROOT }))
  .filter((path) => !/\.(test|testing)\.ts$/.test(path))
  .map((path) => ({ path, text: readFileSync(join(ROOT, path), "utf8") }));

test("a hold is made by the functions that say how it ends, and nowhere else", () => {
  const byHand = sources.filter(
    ({ path, text }) => !path.endsWith("/hold.ts") && /\bendsWhen(:| =)/.test(text),
  );

  assert.deepEqual(
    byHand.map(({ path }) => path),
    [],
  );
});

test("what ends by itself is on the list of what does", () => {
  const ends = sources.flatMap(({ text }) =>
    [...text.matchAll(/byItself\(([^)]*)\)/g)].flatMap(([, given = ""]) =>
      [...given.matchAll(/["`]([^"`]+)["`]/g)].map(([, said = ""]) =>
        said.replaceAll(/\$\{[^}]+\}/g, "#"),
      ),
    ),
  );

  assert.deepEqual([...new Set(ends)].toSorted(), Object.keys(BY_ITSELF).toSorted());
});

test("every command that a hold names is one the command line has, whole as it is printed", () => {
  const commands = sources.flatMap(({ path, text }) =>
    [...text.matchAll(/`(exclave [^`]*)`/g)].map(([, command = ""]) => ({ path, command })),
  );
  const known = flatten(commandTree(program()));

  assert.ok(commands.length >= 7, "holds name commands");
  for (const { path, command } of commands) {
    const problem = problemWith(command, known);
    assert.equal(problem, undefined, `${path}: ${command}: ${problem}`);
  }
});

/** Words a template fills in stand for one word each; `verb` for the verbs it may be. */
function problemWith(template: string, known: readonly CommandNode[]): string | undefined {
  const verbs = template.includes("${verb}") ? ["deploy", "destroy", "setup"] : [""];
  for (const verb of verbs) {
    const filled = template.replace("${verb}", verb).replaceAll(/\$\{[^}]+\}/g, "x");
    if (/[A-Z…<>]/.test(filled)) return "it leaves something to fill in";
    const words = filled.split(" ").slice(1);
    const found = known.findLast(({ path }) => path.every((word, index) => words[index] === word));
    if (!found) return "there is no such command";
    const options = words.filter((word) => word.startsWith("--"));
    const unknown = options.find((word) => !found.options.some(({ long }) => long === word));
    if (unknown) return `it has no option ${unknown}`;
    const given = words.slice(found.path.length).filter((word, index, rest) => {
      return !word.startsWith("--") && !(rest[index - 1] ?? "").startsWith("--");
    });
    const needed = found.usage.split(" ").filter((word) => word.startsWith("<")).length;
    if (given.length < needed) return `it wants ${found.usage}`;
  }
  return undefined;
}

function program() {
  const nowhere = { write: () => undefined } as never;
  return createProgram({ stdout: nowhere, stderr: nowhere } as never);
}
