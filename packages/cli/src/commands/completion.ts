import { Argument, type Command } from "commander";
import { z } from "zod";
import { handler, type Invocation } from "../program/cli.ts";
import { commandTree } from "../program/command-tree.ts";
import { completionScript, SHELLS, type Shell } from "../program/completion.ts";

export function addCompletionCommand(program: Command, invocation: Invocation): void {
  program
    .command("completion")
    .description("write the completion script of a shell to stdout")
    .addArgument(new Argument("<shell>").choices(SHELLS))
    .addHelpText(
      "after",
      "\nExamples:\n  source <(exclave completion bash)\n  source <(exclave completion zsh)\n  exclave completion fish | source\n",
    )
    .action(
      handler(invocation, z.object({}), async (_, shell: Shell) => {
        invocation.stdout.write(completionScript(commandTree(program), shell));
      }),
    );
}
