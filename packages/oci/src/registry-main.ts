// The embedded registry as a program, and the way to put a first image into its directory.
//
//   registry-main --directory D --address 127.0.0.1:0 [--ready-file F]
//                 (--anonymous | --auth-keys FILE --issuer I [--service S] [--realm URL])
//   registry-main --directory D --import-layout DIR --repository R --tag T [--digest D]

import { randomUUID } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { asFailure, Failure } from "@exclave/core";
import { z } from "zod";
import { copyArtifact } from "./copy.ts";
import { createLayoutStore } from "./layout-store.ts";
import type { RegistryAuth } from "./registry/authorize.ts";
import { createRegistryFiles } from "./registry/registry-files.ts";
import { serveRegistry } from "./registry/serve-registry.ts";
import type { TokenKey } from "./token.ts";

const Options = z.object({
  directory: z.string(),
  address: z.string().default("127.0.0.1:0"),
  anonymous: z.boolean().default(false),
  "auth-keys": z.string().optional(),
  issuer: z.string().optional(),
  service: z.string().default("exclave-registry"),
  realm: z.string().default("https://exclave.invalid/token"),
  "ready-file": z.string().optional(),
  "import-layout": z.string().optional(),
  repository: z.string().optional(),
  tag: z.string().optional(),
  digest: z.string().optional(),
});
type Options = z.infer<typeof Options>;

main().catch((reason: unknown) => {
  process.stderr.write(`${asFailure(reason).message}\n`);
  process.exitCode = 1;
});

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2));
  if (options["import-layout"] !== undefined) {
    const digest = await importLayout(options["import-layout"], options);
    process.stdout.write(`${digest}\n`);
    return;
  }
  await serve(options);
}

function readOptions(args: string[]): Options {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args,
    options: {
      directory: text,
      address: text,
      anonymous: { type: "boolean" },
      "auth-keys": text,
      issuer: text,
      service: text,
      realm: text,
      "ready-file": text,
      "import-layout": text,
      repository: text,
      tag: text,
      digest: text,
    },
  });
  const options = Options.safeParse(values);
  if (options.success) return options.data;
  throw new Failure("invalid", `wrong options: ${z.prettifyError(options.error)}`);
}

async function serve(options: Options): Promise<void> {
  const [, host = "", port = ""] = /^\[?(.*?)\]?:(\d+)$/.exec(options.address) ?? [];
  if (host === "") throw new Failure("invalid", `${options.address} is not host:port`);
  const registry = await serveRegistry({
    directory: options.directory,
    host,
    port: Number(port),
    auth: await readAuth(options),
    onError: (reason) => process.stderr.write(`${describe(reason)}\n`),
  });
  const stop = () => {
    registry.close().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);

  const ready = options["ready-file"];
  if (ready !== undefined) {
    // Whoever waits for the file finds it whole or not at all.
    const temporary = `${ready}.${randomUUID()}`;
    await writeFile(temporary, `${registry.url}\n`);
    await rename(temporary, ready);
  }
  process.stdout.write(`${registry.url}\n`);
}

async function readAuth(options: Options): Promise<RegistryAuth> {
  const { issuer, service, realm } = options;
  const keyFile = options["auth-keys"];
  // Open to everyone only when that was asked for in so many words.
  if (options.anonymous && keyFile === undefined) return { kind: "anonymous" };
  if (options.anonymous || keyFile === undefined || issuer === undefined) {
    throw new Failure("invalid", "give either --anonymous, or --auth-keys together with --issuer");
  }
  const publicKeys = readKeys(await readFile(keyFile, "utf8"));
  return { kind: "token", realm, service, issuer, publicKeys };
}

/** A JWK set, or public keys in PEM, one after the other. */
function readKeys(text: string): TokenKey[] {
  const pems = text.match(/-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g);
  if (pems) return pems;
  const set = z.object({ keys: z.array(z.looseObject({ kty: z.string() })).min(1) });
  return set.parse(JSON.parse(text)).keys;
}

async function importLayout(layout: string, options: Options) {
  const { directory, repository, tag } = options;
  if (repository === undefined || tag === undefined) {
    throw new Failure("invalid", "--import-layout needs --repository and --tag");
  }
  const from = createLayoutStore({ directory: layout });
  const { digest } = await from.readManifest(repository, options.digest ?? tag);
  await copyArtifact({
    from,
    to: createRegistryFiles(directory),
    source: { repository, digest },
    target: { repository, tag },
    referrers: true,
  });
  return digest;
}

function describe(reason: unknown): string {
  return reason instanceof Error ? (reason.stack ?? reason.message) : String(reason);
}
