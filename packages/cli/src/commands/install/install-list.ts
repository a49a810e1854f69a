import { type InstallView, listInstalls } from "@exclave/api";
import type { Command } from "commander";
import { z } from "zod";
import { listAll } from "../../connection/pages.ts";
import { table } from "../../output/output.ts";
import { handler, type Invocation, toneOf } from "../../program/cli.ts";

export function addInstallList(install: Command, invocation: Invocation): void {
  install
    .command("list")
    .alias("ls")
    .description("list installs")
    .action(
      handler(invocation, z.object({}), async ({ cli }) => {
        const installs = await listAll<InstallView>(await cli.connect(), listInstalls);
        cli.print({
          value: installs,
          text: () =>
            table(
              installs,
              [
                { header: "NAME", cell: ({ name }) => name },
                { header: "APP", cell: ({ app }) => app },
                { header: "CHANNEL", cell: ({ channel }) => channel },
                { header: "VERSION", cell: ({ version }) => version ?? "-" },
                { header: "PHASE", cell: ({ phase }) => cli.paint(toneOf(phase), phase) },
                { header: "HEALTH", cell: ({ health }) => cli.paint(toneOf(health), health) },
                {
                  header: "AGENT",
                  cell: ({ agent }) => cli.paint(toneOf(agent.status), agent.status),
                },
                { header: "WAITS FOR", cell: ({ holds }) => holds[0]?.because ?? "" },
              ],
              "there are no installs; `exclave install create NAME --app APP` makes one",
            ),
          names: () => installs.map(({ name }) => name),
        });
      }),
    );
}
