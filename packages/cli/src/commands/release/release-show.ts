import { type Client, getRelease, listReleases, type ReleaseView } from "@exclave/api";
import { Failure } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { listAll } from "../../connection/pages.ts";
import { table, time } from "../../output/output.ts";
import { printRelease } from "../../output/release-text.ts";
import { handler, type Invocation, toneOf } from "../../program/cli.ts";
import { CliProblem } from "../../program/problem.ts";

const Options = z.object({ app: z.string().optional() });

export function addReleaseList(release: Command, invocation: Invocation): void {
  release
    .command("list")
    .alias("ls")
    .description("list releases, newest first")
    .option("--app <app>", "only those of one app")
    .action(
      handler(invocation, Options, async ({ cli, options }) => {
        const releases = await listReleasesOf(await cli.connect(), options.app);
        cli.print({
          value: releases,
          text: () =>
            table(
              releases,
              [
                { header: "RELEASE", cell: ({ id }) => id },
                { header: "APP", cell: ({ app }) => app },
                { header: "VERSION", cell: ({ version }) => version },
                { header: "STATE", cell: ({ state }) => cli.paint(toneOf(state), state) },
                { header: "CHANNEL", cell: ({ channel }) => channel ?? "-" },
                { header: "CREATED", cell: ({ createdAt }) => time(createdAt) },
                { header: "BECAUSE", cell: ({ because }) => because ?? "" },
              ],
              "there is no release yet; `exclave release DIRECTORY` makes one",
            ),
          names: () => releases.map(({ id }) => id),
        });
      }),
    );
}

export function addReleaseShow(release: Command, invocation: Invocation): void {
  release
    .command("show")
    .description("show one release: its state, its components and their artifacts")
    .argument("<release>", "id or version")
    .option("--app <app>", "whose version it is, where a version is given")
    .action(
      handler(invocation, Options, async ({ cli, options }, given: string) => {
        printRelease(cli, await findRelease(await cli.connect(), given, options));
      }),
    );
}

/** By id; by version where it is clear whose version is meant. */
export async function findRelease(
  client: Client,
  given: string,
  { app }: { readonly app?: string | undefined },
): Promise<ReleaseView> {
  const byId = await client.call(getRelease, { params: { release: given } }).catch(unlessMissing);
  if (byId && (app === undefined || byId.app === app)) return byId;

  const releases = await listReleasesOf(client, app);
  const [found, ...others] = releases.filter(({ version }) => version === given);
  if (!found) throw new Failure("not_found", `there is no release ${given}`);
  if (others.length > 0) {
    const apps = [found, ...others].map((release) => release.app).join(", ");
    throw new CliProblem("usage", `more than one app has a release ${given}: ${apps}`, {
      hint: "say which is meant with --app",
    });
  }
  return found;
}

function listReleasesOf(client: Client, app: string | undefined): Promise<ReleaseView[]> {
  return listAll<ReleaseView>(client, listReleases, app === undefined ? {} : { app });
}

function unlessMissing(reason: unknown): undefined {
  if (reason instanceof Failure && reason.code === "not_found") return undefined;
  throw reason;
}
