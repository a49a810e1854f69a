// A provider's package as far as packing it goes: files in a mirror, and the hash Terraform has for them,
// worked out here a second time. It cannot be run, so a module may lock it but not use it.

import { createHash } from "node:crypto";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ModuleBuild } from "@exclave/plugin-sdk";
import { ownPlatform } from "../bundle-providers.ts";

export const ADDRESS = "registry.terraform.io/acme/thing";
export const VERSION = "1.2.3";
export const PROGRAM = `terraform-provider-thing_v${VERSION}`;

export async function sampleProvider(
  mirror: string,
  platform = ownPlatform(),
): Promise<{ readonly directory: string; readonly hash: string }> {
  const content = `for ${platform}`;
  const directory = join(mirror, ADDRESS, VERSION, platform);
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, PROGRAM), content, { mode: 0o755 });
  const inner = createHash("sha256").update(content).digest("hex");
  const hash = createHash("sha256").update(`${inner}  ${PROGRAM}\n`).digest("base64");
  return { directory, hash: `h1:${hash}` };
}

export function lockFor(hashes: readonly string[], address = ADDRESS): string {
  const list = hashes.map((hash) => JSON.stringify(hash)).join(", ");
  return `provider "${address}" {\n  version = "${VERSION}"\n  hashes = [${list}]\n}\n`;
}

/** Lays a build out as a job of an install finds it. */
export async function layOut(build: ModuleBuild, directory: string): Promise<string> {
  await cp(build.directory, directory, { recursive: true });
  for (const { address, version, platform, path } of build.providers ?? []) {
    const place = join(directory, ".exclave/providers", address, version, platform);
    await cp(path, place, { recursive: true });
  }
  return directory;
}

export async function readText(...path: string[]): Promise<string> {
  return readFile(join(...path), "utf8");
}
