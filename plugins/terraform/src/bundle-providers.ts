// Collects the providers that a lock file names, for every platform asked for, and checks each against
// the lock file's hashes. One that is missing or different fails the build by its name.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, rm, stat, symlink, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Failure, type OperationContext, type ProviderBuild } from "@exclave/plugin-sdk";
import { type LockedProvider, readLockFile } from "./lock-file.ts";
import { findPackage } from "./provider-mirrors.ts";
import type { Tool } from "./tool.ts";
import { unwrap } from "./tool-message.ts";

export interface BundleOptions {
  readonly context: Pick<OperationContext<unknown>, "run" | "workDirectory" | "log">;
  readonly tool: Tool;
  readonly locked: readonly LockedProvider[];
  readonly mirrors: readonly string[];
  readonly platforms: readonly string[];
  /** Whether what no mirror has is fetched from its registry, and the tool's configuration for that. */
  readonly registries?: { readonly configFile: string | undefined };
}

export interface ProviderBundle {
  readonly providers: readonly ProviderBuild[];
  /** A mirror that holds these and nothing else. */
  readonly mirror: string;
  /** The lock file's content, with the hashes that were checked and under which jobs find them. */
  readonly locked: readonly LockedProvider[];
}

export async function bundleProviders(options: BundleOptions): Promise<ProviderBundle> {
  const { context, locked, mirrors, platforms } = options;
  const mirror = join(context.workDirectory, "terraform-providers");
  await rm(mirror, { recursive: true, force: true });
  await mkdir(mirror, { recursive: true });

  const providers: ProviderBuild[] = [];
  for (const { address, version } of locked) {
    for (const platform of platforms) {
      const path =
        (await findPackage(mirrors, { address, version }, platform)) ??
        (await fetchPackage(options, { address, version }, platform));
      if (path === undefined) throw missing(address, version, platform, mirrors);
      const place = path.endsWith(".zip") ? basename(path) : join(version, platform);
      await mkdir(dirname(join(mirror, address, place)), { recursive: true });
      await symlink(path, join(mirror, address, place));
      providers.push({ address, version, platform, path });
    }
  }
  const hashes = new Map<string, string[]>();
  for (const platform of platforms) {
    const found = locked.length === 0 ? new Map() : await packageHashes(options, mirror, platform);
    for (const provider of providers.filter((each) => each.platform === platform)) {
      const own = found.get(provider.address) ?? [];
      await check(provider, own, locked);
      hashes.set(provider.address, [...(hashes.get(provider.address) ?? []), ...own]);
    }
  }
  return {
    providers,
    mirror,
    locked: locked.map((each) => ({
      ...each,
      hashes: [...new Set([...each.hashes, ...(hashes.get(each.address) ?? [])])],
    })),
  };
}

async function check(
  { address, version, platform, path }: ProviderBuild,
  own: readonly string[],
  locked: readonly LockedProvider[],
): Promise<void> {
  const allowed = new Set(locked.find((each) => each.address === address)?.hashes);
  const found = [...own, ...((await stat(path)).isFile() ? [await archiveHash(path)] : [])];
  if (found.some((hash) => allowed.has(hash))) return;
  const message = `the provider ${address} ${version} for ${platform} has a hash that the lock file does not list (${found.join(", ")})`;
  throw new Failure("invalid", message, { details: { path } });
}

async function archiveHash(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file, { highWaterMark: 1024 * 1024 })) {
    hash.update(chunk as Buffer);
  }
  return `zh:${hash.digest("hex")}`;
}

/**
 * The hash of each package's files, by the tool's own reckoning: it is asked to lock a module that
 * needs exactly these, from this mirror alone.
 */
async function packageHashes(
  { context, tool, locked }: BundleOptions,
  mirror: string,
  platform: string,
): Promise<Map<string, readonly string[]>> {
  const directory = join(context.workDirectory, "terraform-lock", platform);
  await requireProviders(directory, locked);
  const args = ["providers", "lock", "-no-color", `-fs-mirror=${mirror}`, `-platform=${platform}`];
  const { exitCode, stdout, stderr } = await context.run(tool.name, args, {
    cwd: directory,
    environment: { CHECKPOINT_DISABLE: "1", TF_CLI_CONFIG_FILE: "/dev/null" },
    allowExitCodes: [0, 1],
    echo: false,
  });
  if (exitCode !== 0) {
    throw new Failure("invalid", `the providers cannot be read: ${unwrap(stderr || stdout)}`);
  }
  const found = (await readLockFile(directory)) ?? [];
  return new Map(found.map(({ address, hashes }) => [address, hashes]));
}

/** Has the tool fetch a package's archive from where the provider's address points. */
async function fetchPackage(
  { context, tool, registries }: BundleOptions,
  provider: Wanted,
  platform: string,
): Promise<string | undefined> {
  if (!registries) return undefined;
  const { address, version } = provider;
  context.log(`fetching the provider ${address} ${version} for ${platform}`);
  const directory = join(context.workDirectory, "terraform-fetch");
  await requireProviders(directory, [provider]);
  const fetched = join(context.workDirectory, "terraform-fetched");
  await mkdir(fetched, { recursive: true });
  const args = ["providers", "mirror", "-no-color", `-platform=${platform}`, fetched];
  const { exitCode, stdout, stderr } = await context.run(tool.name, args, {
    cwd: directory,
    environment: {
      CHECKPOINT_DISABLE: "1",
      TF_CLI_CONFIG_FILE: registries.configFile ?? "/dev/null",
    },
    allowExitCodes: [0, 1],
    echo: false,
  });
  if (exitCode !== 0) {
    const message = `the provider ${address} ${version} for ${platform} cannot be fetched: ${unwrap(stderr || stdout)}`;
    throw new Failure("tool", message);
  }
  return findPackage([fetched], provider, platform);
}

type Wanted = Pick<LockedProvider, "address" | "version">;

/** A module that needs exactly these and does nothing. */
async function requireProviders(directory: string, providers: readonly Wanted[]): Promise<void> {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  const required = providers.map(({ address: source, version }, index) => [
    `p${index}`,
    { source, version },
  ]);
  const module = { terraform: { required_providers: Object.fromEntries(required) } };
  await writeFile(join(directory, "main.tf.json"), JSON.stringify(module));
}

function missing(
  address: string,
  version: string,
  platform: string,
  mirrors: readonly string[],
): Failure {
  const where = mirrors.length === 0 ? "there is no mirror to look in" : "no mirror has it";
  const message = `the provider ${address} ${version} for ${platform}, which the lock file names, cannot be had: ${where}`;
  return new Failure("invalid", message, { details: { mirrors } });
}

/** The tool's name for the machine this runs on. */
export function ownPlatform(): string {
  const names: Partial<Record<NodeJS.Architecture, string>> = { x64: "amd64", ia32: "386" };
  const system = process.platform === "win32" ? "windows" : process.platform;
  return `${system}_${names[process.arch] ?? process.arch}`;
}
