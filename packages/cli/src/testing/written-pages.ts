// Pages of docs/reference that are made from the program itself.

import { Readable } from "node:stream";
import { appJsonSchema, EXIT, EXIT_MEANS } from "@exclave/core";
import { commandTree } from "../program/command-tree.ts";
import { createProgram } from "../program/program.ts";
import { markdownTable, referencePage } from "../program/reference.ts";

export interface WrittenPage {
  readonly file: URL;
  readonly text: string;
}

export function writtenPages(): WrittenPage[] {
  const never = new AbortController().signal;
  const nowhere = { write: () => undefined };
  const program = createProgram({
    environment: {},
    directory: "/",
    stdin: Readable.from([]),
    stdout: nowhere,
    stderr: nowhere,
    signal: never,
    hurry: never,
    now: () => 0,
  });
  return [
    { file: page("cli.md"), text: referencePage(commandTree(program)) },
    { file: page("exit-codes.md"), text: exitCodesPage() },
    { file: page("exclave.schema.json"), text: `${JSON.stringify(appJsonSchema(), null, 2)}\n` },
  ];
}

function page(name: string): URL {
  return new URL(`../../../../docs/reference/${name}`, import.meta.url);
}

function exitCodesPage(): string {
  const rows = Object.entries(EXIT).map(
    ([name, code]) => [`${code}`, EXIT_MEANS[name as keyof typeof EXIT]] as const,
  );
  return `# Exit codes

<!-- Written by \`npm run docs -w exclave\`; a test compares the two. -->

What \`exclave\` ends with. Scripts may lean on these numbers; they do not change.

${markdownTable(["code", "meaning"], rows)}

\`exclave exec\` ends with the exit code of the command it ran, whatever that is. When the command could not be run
at all, the table above applies and stderr says why.

An error is one sentence on stderr, starting with \`error:\`, and where something can be done about it a second line
that says what.
`;
}
