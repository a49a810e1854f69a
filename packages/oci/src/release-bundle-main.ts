// The program behind `exclave release bundle` and `exclave install load`. It writes JSON lines:
// progress while it works, and a result or a failure at the end.
//
//   release-bundle-main write --registry URL --repository R --digest D --file F [--ca FILE]
//       with the password for the registry's token service in EXCLAVE_REGISTRY_PASSWORD
//   release-bundle-main load --file F --directory INSTALL [--key FILE.pem]

import { createPublicKey, type KeyObject } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { asFailure, Failure } from "@exclave/core";
import { z } from "zod";
import { readFileIfThere } from "./blob-files.ts";
import { RepositoryName } from "./descriptor.ts";
import { parseDigest } from "./digest.ts";
import { createRegistryClient } from "./registry-client.ts";
import { loadBundle } from "./release-bundle/load-bundle.ts";
import { writeBundle } from "./release-bundle/write-bundle.ts";

const WriteOptions = z.object({
  registry: z.url(),
  repository: z.string(),
  digest: z.string(),
  file: z.string(),
  ca: z.string().optional(),
});

const LoadOptions = z.object({
  file: z.string(),
  directory: z.string(),
  key: z.string().optional(),
});

/** What is needed of a sandbox's contract and of what its agent pinned when it joined. */
const Sandbox = z.looseObject({
  install: z.string(),
  registry: z.looseObject({
    url: z.url(),
    issuer: z.string(),
    service: z.string(),
    repository: z.union([z.literal(""), RepositoryName]).default(""),
  }),
});
const Identity = z.looseObject({
  keys: z.looseObject({ release: z.looseObject({ spki: z.base64() }) }),
});

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());

try {
  await main(process.argv.slice(2));
} catch (reason) {
  const failure = stop.signal.aborted
    ? new Failure("cancelled", "it was stopped")
    : asFailure(reason);
  say({ type: "failure", code: failure.code, message: failure.message });
  process.exitCode = 1;
}

async function main([verb, ...args]: string[]): Promise<void> {
  const text = { type: "string" } as const;
  if (verb === "write") {
    const options = { registry: text, repository: text, digest: text, file: text, ca: text };
    return write(WriteOptions.parse(parseArgs({ args, options }).values));
  }
  if (verb === "load") {
    const options = { file: text, directory: text, key: text };
    return load(LoadOptions.parse(parseArgs({ args, options }).values));
  }
  throw new Failure("invalid", "usage: release-bundle-main write|load …");
}

async function write(options: z.infer<typeof WriteOptions>): Promise<void> {
  const password = process.env["EXCLAVE_REGISTRY_PASSWORD"];
  const from = createRegistryClient({
    url: options.registry,
    ...(password && {
      credentials: async () => ({ kind: "basic", username: "exclave", password }) as const,
    }),
    ...(options.ca && { ca: await readFile(options.ca) }),
  });
  try {
    const written = await writeBundle({
      from,
      repository: options.repository,
      digest: parseDigest(options.digest),
      file: options.file,
      signal: stop.signal,
      onProgress: ({ copiedBytes, totalBytes }) =>
        say({ type: "progress", message: "read", done: copiedBytes, total: totalBytes }),
    });
    say({ type: "result", ...written });
  } finally {
    from.close();
  }
}

async function load({ file, directory, key }: z.infer<typeof LoadOptions>): Promise<void> {
  const { install, registry } = await readSandbox(directory);
  const loaded = await loadBundle({
    file,
    workDirectory: join(directory, "registry"),
    registry: {
      ...registry,
      tokenKey: await readFile(join(directory, "registry", "token.key"), "utf8"),
    },
    publicKeys: key === undefined ? await pinnedKeys(directory) : [await readKey(key)],
    signal: stop.signal,
    onStep: (message, done, total) => say({ type: "progress", message, done, total }),
  });
  say({ type: "result", install, ...loaded });
}

async function readSandbox(directory: string): Promise<z.infer<typeof Sandbox>> {
  const text = await readFileIfThere(join(directory, "sandbox.json"));
  if (!text) throw new Failure("not_found", `there is no install in ${directory}`);
  const sandbox = Sandbox.safeParse(readJson(text));
  if (sandbox.success) return sandbox.data;
  throw new Failure("invalid", `${directory} has no registry that can be loaded from here`);
}

async function pinnedKeys(directory: string): Promise<KeyObject[]> {
  const text = await readFileIfThere(join(directory, "agent", "identity.json"));
  const identity = text && Identity.safeParse(readJson(text)).data;
  if (!identity) {
    throw new Failure(
      "conflict",
      "the install's agent has not joined yet, so nobody knows whose signature counts: wait for it, or name the vendor's key",
    );
  }
  const der = Buffer.from(identity.keys.release.spki, "base64");
  return [createPublicKey({ key: der, format: "der", type: "spki" })];
}

async function readKey(file: string): Promise<KeyObject> {
  try {
    return createPublicKey(await readFile(file, "utf8"));
  } catch (cause) {
    throw new Failure("invalid", `${file} is not a public key in PEM`, { cause });
  }
}

function readJson(text: Buffer): unknown {
  try {
    return JSON.parse(text.toString("utf8"));
  } catch {
    return undefined;
  }
}

function say(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
