// The reference page of the command line, written from the command tree.

import { displayWidth } from "../output/output.ts";
import { type CommandNode, flatten, type OptionNode } from "./command-tree.ts";

export function referencePage(tree: CommandNode): string {
  const commands = flatten(tree).filter(({ children }) => children.length === 0);
  return `${[
    "# The command line",
    "<!-- Written by `npm run docs -w exclave` from the command tree; a test compares the two. -->",
    PREAMBLE,
    "## Options of every command",
    optionTable(tree.options),
    "## Commands",
    commands
      .map(({ path, description }) => `- [\`${path.join(" ")}\`](#${anchor(path)}): ${description}`)
      .join("\n"),
    ...commands.map(section),
  ].join("\n\n")}\n`;
}

const PREAMBLE = `\`exclave <command> --help\` says the same as this page. Answers go to stdout, in the format \`-o\` asks for;
progress, remarks and errors go to stderr. On a terminal progress is redrawn in place, anywhere else each line is
written once. Nouns may be written in the plural, \`list\` as \`ls\`. The numbers a command ends with are in
[exit-codes.md](exit-codes.md).

Which server is meant is decided in this order: \`--server\`, \`--context\`, \`EXCLAVE_SERVER\`, the current context, the
server that \`exclave up\` runs on this machine. The token comes from \`--token-file\`, \`EXCLAVE_TOKEN\`, or the context;
never from an argument, because arguments are seen by everyone on the machine.

\`EXCLAVE_HOME\` (otherwise \`~/.exclave\`) holds the settings of this machine and all data of \`exclave up\`.

## Documented JSON

Fields are added, never renamed. Times are RFC 3339 in UTC; those of audit records alone are milliseconds since 1970, because their hash is over them.

- \`install show -o json\`: an object with \`name\`, \`app\`, \`channel\`, \`release\`, \`version\`, \`phase\`
  (\`setting-up | deploying | settled | held | destroying | destroyed\`), \`health\`
  (\`healthy | degraded | missing | unknown\`), \`agent\`, \`inputs\`, \`components[]\` (\`name\`, \`type\`, \`state\`, \`health\`,
  \`healthBecause\`, \`drift\`, \`artifact\`, \`wantedArtifact\`, \`outputs\`, \`activeJob\`, \`dependsOn\`) and \`holds[]\`
  (\`component\`, \`because\`, \`endsWhen\`, \`command\`: what ends it, null where it ends by itself). \`install create\`, \`deploy\` and \`destroy\` answer with the same.
- \`job list -o json\`: an array of \`id\`, \`operation\`, \`install\`, \`component\`, \`state\`, \`attempt\`, \`because\`, \`requestedBy\`,
  \`createdAt\`, \`startedAt\`, \`endedAt\`, \`failure\` (\`code\`, \`message\`), \`exitCode\`, …; \`job show\` is one of them.
- \`release -o json\`: \`id\`, \`app\`, \`version\`, \`state\` (\`building | ready | failed\`), \`digest\`, \`signed\`, \`channel\`,
  \`components[]\` (\`name\`, \`type\`, \`artifact\`, \`reused\`, \`job\`).
  \`release list\` is an array of them, \`release show\` one.
- \`release bundle -o json\`: \`release\` (\`app\`, \`version\`, \`id\`, \`digest\`, \`materials[]\` with \`name\`, \`repository\`, \`digest\`),
  \`file\`, \`sizeBytes\`, \`sha256\`; \`install load -o json\`: \`install\`, \`release\`, \`signature\`, \`copiedBytes\`, \`skippedBytes\`.
- \`registry serve -o json\`: \`url\`.
- \`check -o json\`: \`ok\`, \`file\`, \`app\`, \`components\`, \`withPlugins\`, \`problems[]\` (\`file\`, \`line\`, \`column\`, \`message\`, \`hint\`).
- \`audit verify -o json\`: \`ok\`, and \`size\` and \`head\`, or \`seq\` and \`because\` of the first row that is broken.
- every \`list\` is an array, whole: pages are fetched for you. \`job list\` and \`audit list\` are cut to the newest \`--limit\`.`;

function section({ path, usage, description, args, options, aliases }: CommandNode): string {
  const parts = [
    `### ${path.join(" ")}`,
    sentence(description),
    `\`\`\`\n${usage}${options.length > 0 ? " [options]" : ""}\n\`\`\``,
  ];
  if (aliases.length > 0) parts.push(`Also: ${aliases.map((alias) => `\`${alias}\``).join(", ")}.`);
  const described = args.filter((argument) => argument.description !== "");
  if (described.length > 0) {
    parts.push(described.map(({ name, description: text }) => `- \`${name}\`: ${text}`).join("\n"));
  }
  if (options.length > 0) parts.push(optionTable(options));
  return parts.join("\n\n");
}

function optionTable(options: readonly OptionNode[]): string {
  const rows = options.map((option) => {
    const choices = option.choices.length > 0 ? `: ${option.choices.join(", ")}` : "";
    const usual = option.default === undefined ? "" : ` (${option.default})`;
    return [`\`${option.flags}\``, `${option.description}${choices}${usual}`] as const;
  });
  return markdownTable(["option", ""], rows);
}

/** Padded as the formatter wants it. */
export function markdownTable(
  header: readonly [string, string],
  rows: readonly (readonly [string, string])[],
): string {
  const widths = [0, 1].map((column) =>
    Math.max(3, ...[header, ...rows].map((row) => displayWidth(row[column] ?? ""))),
  );
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell + " ".repeat((widths[column] ?? 0) - displayWidth(cell))).join(" | ")} |`;
  return [line(header), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join(
    "\n",
  );
}

function anchor(path: readonly string[]): string {
  return path.join("-");
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
