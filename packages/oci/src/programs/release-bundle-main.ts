// The program behind `exclave release bundle` and `exclave install load`. It writes JSON lines:
// progress while it works, and a result or a failure at the end.
//
//   release-bundle-main write --registry URL --repository R --digest D --file F [--ca FILE]
//       with the password for the registry's token service in EXCLAVE_REGISTRY_PASSWORD
//   release-bundle-main load --file F --directory INSTALL [--key FILE.pem]

import { createPublicKey } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import {
  asFailure,
  Envelope,
  Failure,
  fromBase64,
  Instant,
  keysOfRole,
  parseSandboxContract,
  parseTrust,
  type SandboxContract,
  type TrustedRole,
} from "@exclave/core";
import { z } from "zod";
import { createRegistryClient } from "../client/registry-client.ts";
import { readFileIfThere } from "../content/blob-files.ts";
import { parseDigest } from "../content/digest.ts";
import { schemeOf } from "../formats/release-statement.ts";
import { loadBundle } from "../release-bundle/load-bundle.ts";
import { writeBundle } from "../release-bundle/write-bundle.ts";

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

/** What is needed of what the install's agent pinned when it joined. */
const Trust = z.looseObject({ envelope: Envelope });
const Identity = z.looseObject({ app: z.string().optional() });

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
    ...(key === undefined ? await pinned(directory) : { role: await readKey(key) }),
    signal: stop.signal,
    onStep: (message, done, total) => say({ type: "progress", message, done, total }),
  });
  say({ type: "result", install: install.name, ...loaded });
}

async function readSandbox(directory: string): Promise<SandboxContract> {
  const text = await readFileIfThere(join(directory, "sandbox.json"));
  if (!text) throw new Failure("not_found", `there is no install in ${directory}`);
  const contract = parseSandboxContract(text.toString("utf8"));
  if (contract) return contract;
  throw new Failure("invalid", `${directory} has no registry that can be loaded from here`);
}

async function pinned(
  directory: string,
): Promise<{ readonly role: TrustedRole; readonly app?: string | undefined }> {
  const text = await readFileIfThere(join(directory, "agent", "trust.json"));
  const kept = text && Trust.safeParse(readJson(text)).data;
  const payload = kept && fromBase64(kept.envelope.payload);
  const document = payload && parseTrust(payload);
  if (!document || "because" in document) {
    throw new Failure(
      "conflict",
      "the install's agent has not joined yet, so nobody knows whose signature counts: wait for it, or name the vendor's key",
    );
  }
  const known = await readFileIfThere(join(directory, "agent", "identity.json"));
  const app = known && Identity.safeParse(readJson(known)).data?.app;
  const role = keysOfRole(document, "release", Instant.parse(Date.now()));
  return { role, app: app || undefined };
}

async function readKey(file: string): Promise<TrustedRole> {
  try {
    const key = createPublicKey(await readFile(file, "utf8"));
    const spki = key.export({ type: "spki", format: "der" }).toString("base64");
    return { keys: [{ keyid: file, spki, scheme: schemeOf(key) }], threshold: 1 };
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
