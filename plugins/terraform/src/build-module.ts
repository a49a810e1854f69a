// Makes the artifact of a Terraform component: the module, the modules it calls from elsewhere, and
// every provider its lock file names. What comes out needs no other source, now or in an install.

import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type ModuleBuild, type OperationContext, z } from "@exclave/plugin-sdk";
import { writeBuildRecord } from "./build-record.ts";
import { bundleProviders, ownPlatform } from "./bundle-providers.ts";
import { LOCK_FILE, type LockedProvider, readLockFile, renderLockFile } from "./lock-file.ts";
import { insideSource, readMachine, sourceMirrors } from "./provider-mirrors.ts";
import type { Tool } from "./tool.ts";
import { openWorkspace } from "./workspace.ts";

export const Platform = z.string().regex(/^[a-z0-9]+_[a-z0-9]+$/, "such as linux_amd64");

export interface BuildModule {
  readonly context: OperationContext<unknown>;
  readonly tool: Tool;
  readonly platforms: readonly string[] | undefined;
  readonly providersFrom: string | undefined;
  /** Whether what no mirror has is fetched from its registry. */
  readonly fetchProviders: boolean;
  /** The tool's own configuration file on this machine, which may name mirrors. */
  readonly machineConfig: string | undefined;
}

export async function buildModule(options: BuildModule): Promise<ModuleBuild> {
  const { context, tool, providersFrom } = options;
  const { files } = context;
  const own = ownPlatform();
  const wanted = new Set(options.platforms ?? [own]);
  // The module is checked here, so the builder's own platform is needed whether it travels or not.
  const platforms = [...new Set([...wanted, own])].toSorted();
  const named = providersFrom === undefined ? undefined : { providersFrom, tool: tool.name };
  const inSource = await sourceMirrors(files, named);
  const bundle = (locked: readonly LockedProvider[], mirrors: readonly string[]) =>
    bundleProviders({
      context,
      tool,
      locked,
      mirrors,
      platforms,
      ...(options.fetchProviders && { registries: { configFile: machine.configFile } }),
    });

  const machine = await readMachine(options.machineConfig);
  const given = await readLockFile(files);
  const everywhere = [...inSource, ...machine.mirrors];
  const pinned = given && (await bundle(given, everywhere));

  context.log(`checking the module with ${tool.name} ${tool.version}`);
  const workspace = await openWorkspace({
    context,
    tool,
    files,
    mirrors: pinned ? [pinned.mirror] : inSource,
    variables: {},
    record: () => undefined,
  });
  const lockFile = join(workspace.directory, LOCK_FILE);
  if (pinned) await writeFile(lockFile, renderLockFile(pinned.locked));
  if (providersFrom !== undefined) {
    const copied = join(workspace.directory, insideSource(providersFrom));
    // Some directories are never copied in the first place, .exclave/providers among them.
    await rm(copied, { recursive: true, force: true });
  }
  await workspace.init();
  await workspace.bringModules();
  await workspace.validate();
  await writeBuildRecord(workspace.directory, { tool: tool.name });
  // The init drops what the module does not use today; the artifact keeps what was pinned.
  if (pinned) await writeFile(lockFile, renderLockFile(pinned.locked));

  const chosen = pinned ? undefined : await readLockFile(workspace.directory);
  const found = pinned ?? (chosen && (await bundle(chosen, inSource)));
  const providers = found?.providers.filter(({ platform }) => wanted.has(platform)) ?? [];
  for (const { address, version, platform } of providers) {
    context.log(`the provider ${address} ${version} for ${platform} is brought along`);
  }
  return { kind: "module", directory: workspace.directory, providers };
}
