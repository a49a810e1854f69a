// The embedded registry as a program: serves a directory, puts a first image into it, or gives back
// the room of what nothing needs any more. Wrong usage ends with 2, any other failure with 1.

import { randomUUID } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import {
  asFailure,
  Failure,
  INSECURE_HTTP_VARIABLE,
  refusePlainListener,
  wantsInsecureHttp,
} from "@exclave/core";
import { z } from "zod";
import { createLayoutStore } from "../content/layout-store.ts";
import { copyArtifact } from "../copy/copy.ts";
import type { TokenKey } from "../credentials/token.ts";
import type { RegistryAuth } from "../registry/authorize.ts";
import { createRegistryFiles } from "../registry/files/registry-files.ts";
import { collectGarbage } from "../registry/garbage/collect-garbage.ts";
import { serveRegistry } from "../registry/serve-registry.ts";

const USAGE = `An OCI registry over a directory.

  --directory PATH       where its content lies; made if it is not there
  --address HOST:PORT    where it listens, 127.0.0.1 and a free port unless said; printed when ready
  --socket PATH          a unix socket it listens on instead, on no port
  --ready-file PATH      gets the address too, once it listens
  --insecure-http        it may listen beyond loopback, though it has no TLS (or EXCLAVE_INSECURE_HTTP=1)

Who may come in:
  --anonymous            everyone, to do anything; a manifest may come before its blobs
  --auth-keys PATH       whoever has a token signed by one of these keys: a JWK set, or PEM
  --issuer NAME          who signs the tokens
  --service NAME         what the tokens call this registry (exclave-registry)
  --realm URL            where clients are told to ask for a token

Instead of serving:
  --import-layout PATH --repository NAME --tag TAG [--digest DIGEST]
                         brings in an image from an OCI layout
  --collect              removes what nothing has needed for a day; safe while a registry serves
`;

const Options = z.object({
  help: z.boolean().default(false),
  directory: z.string().optional(),
  address: z.string().default("127.0.0.1:0"),
  socket: z.string().optional(),
  anonymous: z.boolean().default(false),
  "auth-keys": z.string().optional(),
  issuer: z.string().optional(),
  service: z.string().default("exclave-registry"),
  realm: z.string().default("https://exclave.invalid/token"),
  "ready-file": z.string().optional(),
  "insecure-http": z.boolean().default(false),
  "import-layout": z.string().optional(),
  repository: z.string().optional(),
  tag: z.string().optional(),
  digest: z.string().optional(),
  collect: z.boolean().default(false),
});
type Options = z.infer<typeof Options>;

main().catch((reason: unknown) => {
  const { code, message } = asFailure(reason);
  process.stderr.write(`error: ${message}\n`);
  process.exitCode = code === "invalid" || code === "forbidden" ? 2 : 1;
});

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2));
  if (options.help) {
    process.stdout.write(USAGE);
    return;
  }
  const { directory } = options;
  if (directory === undefined) {
    throw new Failure("invalid", "give --directory, where the registry keeps its content");
  }
  if (options["import-layout"] !== undefined) {
    const digest = await importLayout(options["import-layout"], directory, options);
    process.stdout.write(`${digest}\n`);
  } else if (options.collect) {
    const { removed, removedBytes } = await collectGarbage({ directory, now: Date.now() });
    process.stdout.write(`removed ${removed} blobs, ${removedBytes} bytes\n`);
  } else {
    await serve(directory, options);
  }
}

function readOptions(args: string[]): Options {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  try {
    const { values } = parseArgs({
      args,
      options: {
        help: flag,
        directory: text,
        address: text,
        socket: text,
        anonymous: flag,
        "auth-keys": text,
        issuer: text,
        service: text,
        realm: text,
        "ready-file": text,
        "insecure-http": flag,
        "import-layout": text,
        repository: text,
        tag: text,
        digest: text,
        collect: flag,
      },
    });
    return Options.parse(values);
  } catch (cause) {
    const [sentence] = asFailure(cause).message.split(". ");
    throw new Failure("invalid", `${sentence}; --help shows what there is`, { cause });
  }
}

async function serve(directory: string, options: Options): Promise<void> {
  const { address, socket } = options;
  const [, host = "", port = ""] = /^\[?(.*?)\]?:(\d{1,5})$/.exec(address) ?? [];
  if (host === "") throw new Failure("invalid", `${address} is not HOST:PORT`);
  const isInsecure = options["insecure-http"];
  const isAllowed = isInsecure || wantsInsecureHttp(process.env[INSECURE_HTTP_VARIABLE]);
  if (socket === undefined) refusePlainListener(host, isAllowed);
  const auth = await readAuth(options);
  const registry = await serveRegistry({
    directory,
    host,
    port: Number(port),
    socket,
    auth,
    // One that is open to everyone is for trying things out, also with tools that push in this order.
    mayLackBlobs: auth.kind === "anonymous",
    onError: (reason) => process.stderr.write(`${describe(reason)}\n`),
  }).catch((cause: unknown) => {
    if (cause instanceof Failure) throw cause;
    const { message } = asFailure(cause);
    throw new Failure("unavailable", `cannot listen on ${socket ?? address}: ${message}`, {
      cause,
    });
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
    const choice = "--anonymous to let everyone in, or --auth-keys and --issuer for tokens";
    throw new Failure("invalid", `say who may come in: ${choice}`);
  }
  const publicKeys = await readKeys(keyFile);
  return { kind: "token", realm, service, issuer, publicKeys };
}

/** A JWK set, or public keys in PEM, one after the other. */
async function readKeys(file: string): Promise<TokenKey[]> {
  try {
    const text = await readFile(file, "utf8");
    const pems = text.match(/-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g);
    if (pems) return pems;
    const set = z.object({ keys: z.array(z.looseObject({ kty: z.string() })).min(1) });
    return set.parse(JSON.parse(text)).keys;
  } catch (cause) {
    throw new Failure("invalid", `${file} has no keys: a JWK set or PEM is needed`, { cause });
  }
}

async function importLayout(layout: string, directory: string, options: Options) {
  const { repository, tag } = options;
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
