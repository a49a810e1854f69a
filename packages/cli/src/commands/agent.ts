import { type AgentView, listAgents } from "@exclave/api";
import type { Command } from "commander";
import { z } from "zod";
import { handler, toneOf, type World } from "../cli.ts";
import { table, time } from "../output.ts";
import { listAll } from "../pages.ts";

export function addAgentCommands(program: Command, world: World): void {
  const agent = program.command("agent").alias("agents").description("the agents that run jobs");

  agent
    .command("list")
    .alias("ls")
    .description("list agents and whether they are connected")
    .action(
      handler(world, z.object({}), async ({ cli }) => {
        const agents = await listAll<AgentView>(await cli.connect(), listAgents);
        cli.print({
          value: agents,
          text: () =>
            table(
              agents,
              [
                { header: "ID", cell: ({ id }) => id },
                { header: "KIND", cell: ({ kind }) => kind },
                { header: "FOR", cell: ({ audience }) => audience },
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
}
