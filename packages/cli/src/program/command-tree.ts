// The command tree as plain data, for everything that is made from it: completion and reference.

import type { Argument, Command, Option } from "commander";

export interface CommandNode {
  /** The words that lead here, without the program's own name. */
  readonly path: readonly string[];
  readonly aliases: readonly string[];
  readonly description: string;
  readonly usage: string;
  readonly args: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly OptionNode[];
  readonly children: readonly CommandNode[];
}

export interface OptionNode {
  readonly flags: string;
  readonly short: string | undefined;
  readonly long: string | undefined;
  readonly description: string;
  readonly takesValue: boolean;
  readonly choices: readonly string[];
  readonly default: string | undefined;
}

export function commandTree(command: Command, path: readonly string[] = []): CommandNode {
  const args = command.registeredArguments;
  return {
    path,
    aliases: command.aliases(),
    description: command.description(),
    usage: ["exclave", ...path, ...args.map(argumentText)].join(" "),
    args: args.map((argument) => ({ name: argument.name(), description: argument.description })),
    options: command.options.filter(({ hidden }) => !hidden).map(optionNode),
    children: command.commands.map((child) => commandTree(child, [...path, child.name()])),
  };
}

/** Every command below, parents before children. */
export function flatten(node: CommandNode): CommandNode[] {
  return node.children.flatMap((child) => [child, ...flatten(child)]);
}

function argumentText(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? "..." : ""}`;
  return argument.required ? `<${name}>` : `[${name}]`;
}

function optionNode(option: Option): OptionNode {
  const hasDefault = option.defaultValue !== undefined && typeof option.defaultValue !== "boolean";
  return {
    flags: option.flags,
    short: option.short,
    long: option.long,
    description: option.description,
    takesValue: option.required || option.optional,
    choices: option.argChoices ?? [],
    default: hasDefault ? defaultText(option) : undefined,
  };
}

function defaultText({ defaultValue, defaultValueDescription }: Option): string {
  return defaultValueDescription ?? String(defaultValue);
}
