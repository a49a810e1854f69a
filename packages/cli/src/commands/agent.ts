import { type AgentView, listAgents } from "@exclave/api";
import type { Command } from "commander";
import { z } from "zod";
import { listAll } from "../connection/pages.ts";
import { table, time } from "../output/output.ts";
import { handler, type Invocation, toneOf } from "../program/cli.ts";
import { plainEnvironment, programOf, runProgram } from "../program/package-program.ts";
import { ExitWith } from "../program/problem.ts";

export function addAgentCommands(program: Command, invocation: Invocation): void {
  const agent = program.command("agent").alias("agents").description("the agents that run jobs");

  agent
    .command("list")
    .alias("ls")
    .description("list agents and whether they are connected")
    .action(
      handler(invocation, z.object({}), async ({ cli }) => {
        const agents = await listAll<AgentView>(await cli.connect(), listAgents);
        cli.print({
          value: agents,
          text: () =>
            table(
              agents,
              [
                { header: "ID", cell: ({ id }) => id },
                { header: "KIND", cell: ({ kind }) => kind },
                { header: "FOR", cell: ({ install, audience }) => install ?? audience },
                { header: "STATUS", cell: ({ status }) => cli.paint(toneOf(status), status) },
                { header: "SINCE", cell: ({ since }) => time(since) },
                { header: "JOBS", cell: ({ openJobs }) => `${openJobs}` },
                { header: "RUNTIME", cell: ({ runtime }) => runtime },
                { header: "VERSION", cell: ({ version }) => version },
              ],
              "no agent has joined yet",
            ),
          names: () => agents.map(({ id }) => id),
        });
      }),
    );

  agent
    .command("checkpoints")
    .description("print what an agent on this machine saw of the server's record, as it was signed")
    .requiredOption("--home <directory>", "the agent's home")
    .action(
      handler(invocation, z.object({ home: z.string() }), async ({ options }) => {
        const code = await runProgram(invocation, {
          program: programOf("@exclave/agent"),
          args: ["checkpoints", "--home", options.home],
          environment: plainEnvironment(invocation.environment),
        });
        if (code !== 0) throw new ExitWith(code);
      }),
    );
}
