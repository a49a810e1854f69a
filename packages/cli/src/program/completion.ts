// Completion scripts for three shells, written from the command tree: a new command or option is
// completed the day it exists.

import { unreachable } from "@exclave/core";
import { type CommandNode, flatten, type OptionNode } from "./command-tree.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

export function completionScript(tree: CommandNode, shell: Shell): string {
  switch (shell) {
    case "bash":
      return bashScript(tree);
    case "zsh":
      return `#compdef exclave\nautoload -U +X bashcompinit && bashcompinit\n${bashScript(tree)}`;
    case "fish":
      return fishScript(tree);
    default:
      return unreachable(shell);
  }
}

function bashScript(tree: CommandNode): string {
  const nodes = [tree, ...flatten(tree)];
  const words = nodes.map(
    (node) => `    "${node.path.join(" ")}") words="${wordsAt(node, tree)}" ;;`,
  );
  const moves = nodes.flatMap((node) =>
    node.children.map((child) => {
      const from = [...node.path, ""].join(" ");
      const spellings = [child.path.at(-1) ?? "", ...child.aliases];
      return `      ${spellings.map((word) => `"${from}${word}"`).join("|")}) at="${child.path.join(" ")}" ;;`;
    }),
  );
  const choices = [
    ...new Map(
      nodes
        .flatMap(({ options }) => options.filter(hasChoices))
        .map((option) => [option.long, option]),
    ).values(),
  ];
  const values = choices.map(
    ({ short, long, choices: given }) =>
      `    ${[short, long].filter((flag) => flag !== undefined).join("|")}) COMPREPLY=($(compgen -W "${given.join(" ")}" -- "$current")); return ;;`,
  );
  return `_exclave() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}"
  local at="" word words="" index
  COMPREPLY=()
  case "$previous" in
${values.join("\n")}
    --token-file|--ca-file|--directory) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="\${COMP_WORDS[index]}"
    case "\${at:+$at }$word" in
${moves.join("\n")}
    esac
  done
  case "$at" in
${words.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _exclave exclave
`;
}

function wordsAt(node: CommandNode, tree: CommandNode): string {
  const options = node === tree ? tree.options : [...node.options, ...tree.options];
  return [
    ...node.children.map(({ path }) => path.at(-1) ?? ""),
    ...options.flatMap(({ long }) => long ?? []),
    "--help",
  ].join(" ");
}

function hasChoices({ choices }: OptionNode): boolean {
  return choices.length > 0;
}

function fishScript(tree: CommandNode): string {
  const nodes = flatten(tree);
  const lines = [
    ...tree.options.map((option) => fishOption(option, "")),
    ...nodes.map((node) => fishCommand(node, nodes)),
    ...nodes.flatMap((node) =>
      node.options.map((option) => fishOption(option, condition(node.path))),
    ),
  ];
  return `${lines.join("\n")}\n`;
}

function fishCommand(node: CommandNode, nodes: readonly CommandNode[]): string {
  const parent = node.path.slice(0, -1);
  const siblings = nodes.filter(
    ({ path }) =>
      path.length === node.path.length && path.slice(0, -1).join(" ") === parent.join(" "),
  );
  const names = siblings.flatMap(({ path, aliases }) => [path.at(-1) ?? "", ...aliases]).join(" ");
  const when =
    parent.length === 0
      ? "__fish_use_subcommand"
      : `${condition(parent)}; and not __fish_seen_subcommand_from ${names}`;
  return `complete -c exclave -f -n '${when}' -a ${node.path.at(-1)} -d '${quoted(node.description)}'`;
}

function fishOption(
  { short, long, description, takesValue, choices }: OptionNode,
  when: string,
): string {
  return [
    "complete -c exclave",
    when === "" ? "" : `-n '${when}'`,
    short === undefined ? "" : `-s ${short.slice(1)}`,
    long === undefined ? "" : `-l ${long.slice(2)}`,
    takesValue ? "-r" : "",
    choices.length > 0 ? `-f -a '${choices.join(" ")}'` : "",
    `-d '${quoted(description)}'`,
  ]
    .filter((part) => part !== "")
    .join(" ");
}

function condition(path: readonly string[]): string {
  return path.map((word) => `__fish_seen_subcommand_from ${word}`).join("; and ");
}

function quoted(text: string): string {
  return text.replaceAll("'", "\\'");
}
