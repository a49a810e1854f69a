import { readFile } from "node:fs/promises";
import { getInfo } from "@exclave/api";
import type { Command } from "commander";
import { z } from "zod";
import { pairs } from "../output/output.ts";
import { type Cli, handler, type Invocation } from "../program/cli.ts";

/** Which program this is, and which server it speaks to. */
export function addVersionCommand(program: Command, invocation: Invocation): void {
  program
    .command("version")
    .description("show the version of this program and of the server")
    .action(
      handler(invocation, z.object({}), async ({ cli }) => {
        const version = await ownVersion();
        const server = await serverInfo(cli);
        cli.print({
          value: { version, node: process.versions.node, server },
          text: () =>
            pairs([
              ["exclave", version],
              ["node", process.versions.node],
              ["server", server ? `${server.version} at ${server.url}` : "not reached"],
            ]),
          names: () => [version],
        });
      }),
    );
}

export async function ownVersion(): Promise<string> {
  const text = await readFile(new URL("../../package.json", import.meta.url), "utf8");
  return z.object({ version: z.string() }).parse(JSON.parse(text)).version;
}

/** The version of this program is worth showing without any server. */
async function serverInfo(cli: Cli): Promise<{ url: string; version: string } | null> {
  try {
    const client = await cli.connect();
    const { version } = await client.call(getInfo, { signal: AbortSignal.timeout(2_000) });
    return { url: client.url, version };
  } catch {
    return null;
  }
}
