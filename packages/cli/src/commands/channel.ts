import { type ChannelView, listChannels, setChannel } from "@exclave/api";
import { AppName, ChannelName } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { listAll } from "../connection/pages.ts";
import { table, time } from "../output/output.ts";
import { type Cli, handler, type Invocation } from "../program/cli.ts";
import { checked } from "../program/problem.ts";

export function addChannelCommands(program: Command, invocation: Invocation): void {
  const channel = program
    .command("channel")
    .alias("channels")
    .description("names that point at a release; installs follow one");

  channel
    .command("list")
    .alias("ls")
    .description("list channels and the release each points at")
    .option("--app <app>", "only those of one app")
    .action(
      handler(invocation, z.object({ app: z.string().optional() }), async ({ cli, options }) => {
        printChannels(cli, await listAll<ChannelView>(await cli.connect(), listChannels, options));
      }),
    );

  channel
    .command("set")
    .description("point a channel at a release; installs that follow it are deployed")
    .argument("<app>")
    .argument("<channel>")
    .argument("<release>", "id or version")
    .action(
      handler(
        invocation,
        z.object({}),
        async ({ cli }, app: string, name: string, release: string) => {
          const params = {
            app: checked(AppName, app, "app"),
            channel: checked(ChannelName, name, "channel"),
          };
          const client = await cli.connect();
          printChannels(cli, await client.call(setChannel, { params, body: { release } }));
        },
      ),
    );
}

function printChannels(cli: Cli, value: ChannelView | readonly ChannelView[]): void {
  const channels = Array.isArray(value)
    ? (value as readonly ChannelView[])
    : [value as ChannelView];
  cli.print({
    value,
    text: () =>
      table(
        channels,
        [
          { header: "APP", cell: ({ app }) => app },
          { header: "CHANNEL", cell: ({ name }) => name },
          { header: "VERSION", cell: ({ version }) => version ?? "-" },
          { header: "RELEASE", cell: ({ release }) => release ?? "-" },
          { header: "MOVED", cell: ({ movedAt }) => time(movedAt) },
        ],
        "there is no channel yet; `exclave release --channel stable` makes one",
      ),
    names: () => channels.map(({ name }) => name),
  });
}
