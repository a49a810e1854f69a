import { join, resolve } from "node:path";
import { Failure, InstallName } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { pairs } from "../../output/output.ts";
import { BundledRelease, runBundleProgram, sizeText } from "../../program/bundle-program.ts";
import { type Cli, handler, type Invocation } from "../../program/cli.ts";
import { CliProblem, checked } from "../../program/problem.ts";
import { listLocalInstalls } from "../../up/local-installs.ts";

const Options = z.object({ directory: z.string().optional(), key: z.string().optional() });

const Loaded = z.object({
  install: z.string(),
  release: BundledRelease,
  signature: z.string(),
  copiedBytes: z.number(),
  skippedBytes: z.number(),
});

/** The customer's side of an air gap: it speaks to the install's own registry and to nobody else. */
export function addInstallLoad(install: Command, invocation: Invocation): void {
  install
    .command("load")
    .description("take a bundled release into an install's own registry, without the vendor's")
    .argument(
      "<install-or-file>",
      "the install on this machine; the file where --directory says it",
    )
    .argument("[file]", "what `exclave release bundle` wrote")
    .option("--directory <directory>", "the install's home, where it is not one of EXCLAVE_HOME")
    .option("--key <file>", "the vendor's release key (PEM), instead of the one the agent pinned")
    .addHelpText(
      "after",
      "\nExamples:\n  exclave install load acme crm-3.oci.tar\n  exclave install load crm-3.oci.tar --directory /srv/acme\n",
    )
    .action(
      handler(invocation, Options, async ({ cli, options }, first: string, second?: string) => {
        const { file, directory } = await decidePlace(cli, options.directory, first, second);
        const key =
          options.key === undefined ? [] : ["--key", resolve(invocation.directory, options.key)];
        const loaded = await runBundleProgram(cli, {
          args: ["load", "--file", file, "--directory", directory, ...key],
          result: Loaded,
          describe: ({ message, done, total }) => `${message} (${done + 1} of ${total})`,
        }).catch(explain);
        const { release } = loaded;
        cli.print({
          value: loaded,
          text: () =>
            pairs([
              ["install", loaded.install],
              ["release", `${release.version} of ${release.app}`],
              ["digest", release.digest],
              ["loaded", release.materials.map(({ name }) => name).join(", ")],
              ["new", sizeText(loaded.copiedBytes)],
              ["there before", sizeText(loaded.skippedBytes)],
            ]),
          names: () => [release.id],
        });
      }),
    );
}

function explain(reason: unknown): never {
  if (!(reason instanceof Failure) || reason.code !== "unavailable") throw reason;
  throw new CliProblem("unreachable", reason.message, {
    hint: "the install has to run while it is loaded; `exclave up` starts those of this machine",
    cause: reason,
  });
}

async function decidePlace(
  { home, invocation }: Cli,
  directory: string | undefined,
  first: string,
  second: string | undefined,
): Promise<{ readonly file: string; readonly directory: string }> {
  if ((directory === undefined) === (second === undefined)) {
    throw new CliProblem("usage", "name the install and the file, or the file and --directory", {
      hint: "for example `exclave install load acme bundle.oci.tar`",
    });
  }
  const file = resolve(invocation.directory, second ?? first);
  if (directory !== undefined) return { file, directory: resolve(invocation.directory, directory) };
  const name = checked(InstallName, first, "an install");
  const named = (await listLocalInstalls(home)).filter((local) =>
    [local.id, local.name].includes(name),
  );
  if (named.length > 1) {
    // One was forgotten by its server and still runs; which is meant, nobody here can know.
    const ids = named.map(({ id, directory: place }) => `${id} (${place})`);
    throw new CliProblem("usage", `there are ${named.length} installs ${name} on this machine`, {
      hint: `say which by its id: ${ids.join(", ")}`,
    });
  }
  return { file, directory: named[0]?.directory ?? join(home.installsDirectory, name) };
}
