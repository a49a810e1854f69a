import { access } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { AppId, releaseRepository } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { readToken, type Target } from "../../connection/connection.ts";
import { pairs } from "../../output/output.ts";
import { BundledRelease, runBundleProgram, sizeText } from "../../program/bundle-program.ts";
import { handler, type Invocation } from "../../program/cli.ts";
import { CliProblem } from "../../program/problem.ts";
import { findRelease } from "./release-show.ts";

const Options = z.object({ app: z.string().optional(), file: z.string() });

const Written = z.object({
  release: BundledRelease,
  file: z.string(),
  sizeBytes: z.number(),
  sha256: z.string(),
});

export function addReleaseBundle(release: Command, invocation: Invocation): void {
  release
    .command("bundle")
    .description("write a release with everything an install needs as one file, for an air gap")
    .argument("<release>", "id or version")
    .option("--app <app>", "whose version it is, where a version is given")
    .requiredOption("-f, --file <file>", "the file to write, an OCI layout archive")
    .action(
      handler(invocation, Options, async ({ cli, options }, given: string) => {
        const { id, appId, state, digest } = await findRelease(await cli.connect(), given, options);
        if (state !== "ready" || digest === null) {
          throw new CliProblem("conflict", `release ${id} is ${state}; only a ready one is whole`);
        }
        const file = resolve(invocation.directory, options.file);
        await access(dirname(file)).catch((cause: unknown) => {
          throw new CliProblem("notFound", `there is no directory ${dirname(file)}`, { cause });
        });
        const target = await cli.target();
        const password = await readToken(target);
        const written = await runBundleProgram(cli, {
          args: ["write", "--file", file, "--digest", digest, ...registryOf(target, appId)],
          secrets: password === undefined ? {} : { EXCLAVE_REGISTRY_PASSWORD: password },
          result: Written,
          describe: ({ done, total }) => `read ${tenths(done, total)} % of ${sizeText(total)}`,
        });
        cli.print({
          value: written,
          text: () =>
            pairs([
              ["file", written.file],
              ["release", `${written.release.version} of ${written.release.app}`],
              ["holds", written.release.materials.map(({ name }) => name).join(", ")],
              ["size", sizeText(written.sizeBytes)],
              ["sha256", written.sha256],
            ]),
          names: () => [written.file],
        });
      }),
    );
}

/** Where the server keeps releases, with everything a release names beside it. */
function registryOf({ url, caFile }: Target, appId: string): string[] {
  const repository = releaseRepository(AppId.parse(appId));
  const ca = caFile === undefined ? [] : ["--ca", caFile];
  return ["--registry", url, "--repository", repository, ...ca];
}

function tenths(done: number, total: number): number {
  return total === 0 ? 100 : Math.floor((10 * done) / total) * 10;
}
