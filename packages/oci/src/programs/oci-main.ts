// Content between registries, layouts and archives, for people: the program behind `exclave oci`.
//
//   copy SOURCE TARGET          inspect REFERENCE
//   push REFERENCE PATH…        pull REFERENCE DIRECTORY        bundle FILE.tar REFERENCE…
//
// Progress goes to stderr, the result to stdout.

import { readFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { getCACertificates } from "node:tls";
import { parseArgs } from "node:util";
import { asFailure, EXIT, exitCodeOf, Failure } from "@exclave/core";
import { diskFailure } from "@exclave/machine";
import { createEcrCredentials, createGarCredentials } from "../credentials/cloud-credentials.ts";
import { createDockerCredentials, firstCredentials } from "../credentials/credentials.ts";
import { bundle, copy, inspect, pull, push } from "./oci-commands.ts";
import { hintFor } from "./oci-hints.ts";
import { createProgress } from "./oci-progress.ts";
import type { Access } from "./open-reference.ts";

const USAGE = `usage: exclave oci copy SOURCE TARGET [--platform os/arch]… [--no-referrers]
       exclave oci inspect REFERENCE
       exclave oci push REFERENCE PATH… [--artifact-type TYPE]
       exclave oci pull REFERENCE DIRECTORY
       exclave oci bundle FILE.tar REFERENCE… [--platform os/arch]… [--no-referrers]

A reference is [http[s]://]host/repository[:tag][@digest], oci:DIRECTORY[:name] or
oci-archive:FILE.tar[:name]. All take --plain-http, --ca FILE, --quiet and -o json.`;

const OPTIONS = {
  "plain-http": { type: "boolean", default: false },
  ca: { type: "string" },
  platform: { type: "string", multiple: true },
  "no-referrers": { type: "boolean", default: false },
  "artifact-type": { type: "string", default: "application/vnd.exclave.files.v1" },
  output: { type: "string", short: "o", default: "text" },
  quiet: { type: "boolean", short: "q", default: false },
  help: { type: "boolean", short: "h", default: false },
} as const;

const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => stopping.abort(new Failure("cancelled", "stopped")));
}

main(process.argv.slice(2)).catch((reason: unknown) => {
  const failure = asFailure(diskFailure(reason));
  const hint = hintFor(failure, {
    credentialFiles: dockerFiles(),
    temporaryDirectory: tmpdir(),
  });
  process.stderr.write(`error: ${failure.message}\n${hint === undefined ? "" : `  ${hint}\n`}`);
  process.exitCode = stopping.signal.aborted ? EXIT.interrupted : exitCodeOf(failure.code);
});

async function main(args: string[]): Promise<void> {
  const { values, positionals } = readArguments(args);
  const [command, first = "", ...rest] = positionals;
  if (values.help) {
    process.stdout.write(`${USAGE}\n`);
    return;
  }
  const access = await readAccess(values);
  const transfer = {
    referrers: !values["no-referrers"],
    platforms: values.platform,
    ...(values.quiet
      ? {}
      : { onProgress: createProgress(process.stderr, () => performance.now()) }),
  };

  switch (command) {
    case "copy": {
      const [to] = expectCount(rest, 1, 1);
      return print(values.output, await copy(first, to, access, transfer));
    }
    case "inspect":
      expectCount(positionals, 2, 2);
      return print("json", await inspect(first, access));
    case "push": {
      const options = { artifactType: values["artifact-type"] };
      return print(values.output, await push(first, expectCount(rest, 1), access, options));
    }
    case "pull": {
      const [directory] = expectCount(rest, 1, 1);
      return print(values.output, await pull(first, directory, access));
    }
    case "bundle":
      return print(values.output, await bundle(first, expectCount(rest, 1), access, transfer));
    default:
      throw new Failure(
        "invalid",
        `${command ? `there is no ${command}` : "no command"}\n${USAGE}`,
      );
  }
}

function readArguments(args: string[]) {
  try {
    const parsed = parseArgs({ args, options: OPTIONS, allowPositionals: true });
    if (parsed.values.output === "json" || parsed.values.output === "text") return parsed;
  } catch (cause) {
    const { message } = cause as Error;
    throw new Failure("invalid", `${message}\n${USAGE}`, { cause });
  }
  throw new Failure("invalid", `-o is text or json\n${USAGE}`);
}

function expectCount(list: string[], min: number, max = Infinity): [string, ...string[]] {
  if (list.length >= min && list.length <= max) return list as [string, ...string[]];
  throw new Failure("invalid", USAGE);
}

async function readAccess(values: {
  readonly "plain-http": boolean;
  readonly ca?: string | undefined;
}): Promise<Access> {
  const ca = values.ca === undefined ? undefined : await readCertificates(values.ca);
  const docker = createDockerCredentials({ files: dockerFiles() });
  const credentials = firstCredentials(docker, createEcrCredentials(), createGarCredentials());
  return { plainHttp: values["plain-http"], ca, credentials, signal: stopping.signal };
}

/** The file's, beside those that count anyway: one side of a copy may be a public registry. */
async function readCertificates(file: string): Promise<string> {
  const own = await readFile(file, "utf8").catch((cause: unknown) => {
    throw new Failure("not_found", `there is no ${file}`, { cause });
  });
  return [...getCACertificates("default"), own].join("\n");
}

/** Where docker, podman and skopeo keep what they know, in the order they look. */
function dockerFiles(): string[] {
  const { REGISTRY_AUTH_FILE, XDG_RUNTIME_DIR, DOCKER_CONFIG } = process.env;
  return [
    ...(REGISTRY_AUTH_FILE ? [REGISTRY_AUTH_FILE] : []),
    ...(XDG_RUNTIME_DIR ? [join(XDG_RUNTIME_DIR, "containers", "auth.json")] : []),
    join(DOCKER_CONFIG || join(homedir(), ".docker"), "config.json"),
  ];
}

function print(output: string, value: object): void {
  if (output === "json") {
    process.stdout.write(`${JSON.stringify(value)}\n`);
    return;
  }
  const shown = Object.entries(value).filter(([, entry]) => typeof entry !== "object");
  for (const [name, entry] of shown) process.stdout.write(`${name}  ${String(entry)}\n`);
  if ("artifacts" in value) {
    for (const { digest } of value.artifacts as { digest: string }[]) {
      process.stdout.write(`artifact  ${digest}\n`);
    }
  }
}
