import {
  type Client,
  createRelease,
  getRelease,
  headSource,
  type JobView,
  listJobs,
  putSource,
  type ReleaseView,
} from "@exclave/api";
import { ChannelName, type Digest } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { knownTypes } from "../../app/known-plugins.ts";
import { type AppSource, readApp, sourcesOf } from "../../app/read-app.ts";
import { packSource } from "../../app/source-archive.ts";
import { listAll } from "../../connection/pages.ts";
import { printRelease } from "../../output/release-text.ts";
import { durationOption } from "../../program/arguments.ts";
import { type Cli, forScreen, handler, type Invocation } from "../../program/cli.ts";
import { checked, placeText } from "../../program/problem.ts";
import { judgeRelease } from "../../progress/release-progress.ts";
import { waitFor } from "../../progress/wait.ts";
import { refuseProblems } from "../check.ts";
import { addReleaseBundle } from "./release-bundle.ts";
import { addReleaseList, addReleaseShow } from "./release-show.ts";

const Options = z.object({
  channel: z.string().optional(),
  version: z.string().optional(),
  because: z.string().optional(),
  wait: z.boolean(),
  timeout: z.int(),
});

export function addReleaseCommand(program: Command, invocation: Invocation): void {
  const release = program
    .command("release")
    .alias("releases")
    .description("build what changed and write a signed release")
    .argument("[directory]", "where exclave.yaml lies", ".")
    .option("--channel <name>", "the channel to move to it, such as stable")
    .option("--version <version>", "what to call it; counted otherwise")
    .option("--because <reason>", "why, for the record")
    .option("--wait", "wait until it is ready (the default)", true)
    .option("--no-wait", "return as soon as the server has taken it")
    .addOption(durationOption("--timeout <duration>", "how long to wait", "10m"))
    .action(
      handler(invocation, Options, async ({ cli, options }, directory: string) => {
        const client = await cli.connect();
        const release = await startRelease(cli, client, directory, options);
        const ended = options.wait
          ? await waitForRelease(cli, client, release.id, options.timeout)
          : release;
        printRelease(cli, ended);
      }),
    );

  addReleaseList(release, invocation);
  addReleaseShow(release, invocation);
  addReleaseBundle(release, invocation);
}

export interface ReleaseWish {
  readonly channel?: string | undefined;
  readonly version?: string | undefined;
  readonly because?: string | undefined;
}

/** Checks the app whole, uploads what the server does not have, and asks for the release. */
export async function startRelease(
  cli: Cli,
  client: Client,
  directory: string,
  { channel, version, because }: ReleaseWish,
): Promise<ReleaseView> {
  const moves =
    channel === undefined ? {} : { channel: checked(ChannelName, channel, "a channel") };
  const source = await readApp(directory, {
    from: cli.invocation.directory,
    ...(await knownTypes(cli, client)),
  });
  for (const problem of source.problems)
    cli.invocation.stderr.write(`${forScreen(cli.invocation.stderr, placeText(problem))}\n`);
  refuseProblems(source);

  return client.call(createRelease, {
    body: {
      config: source.text,
      file: source.file,
      sources: await uploadSources(cli, client, source),
      ...(Object.keys(source.ownPlugins).length > 0 ? { plugins: source.ownPlugins } : {}),
      ...(version === undefined ? {} : { version }),
      ...(because === undefined ? {} : { because }),
      ...moves,
    },
  });
}

async function uploadSources(
  cli: Cli,
  client: Client,
  source: AppSource,
): Promise<Record<string, Digest>> {
  const digests: Record<string, Digest> = {};
  for (const [name, directory] of sourcesOf(source)) {
    const { digest, bytes, files } = await packSource(directory);
    const { exists } = await client.call(headSource, { params: { digest } });
    if (!exists) {
      await client.call(putSource, { params: { digest }, body: bytes });
      cli.say(`uploaded ${name}: ${files} files, ${Math.ceil(bytes.length / 1024)} KiB`);
    }
    digests[name] = digest;
  }
  return digests;
}

export async function waitForRelease(
  cli: Cli,
  client: Client,
  id: string,
  timeoutMs: number,
): Promise<ReleaseView> {
  const { release } = await waitFor({
    what: `release ${id}`,
    async look() {
      const seen = await client.call(getRelease, { params: { release: id } });
      return { release: seen, jobs: await listAll<JobView>(client, listJobs, { release: id }) };
    },
    judge: judgeRelease,
    display: cli.display(),
    signal: cli.invocation.signal,
    now: cli.invocation.now,
    timeoutMs,
  });
  return release;
}
