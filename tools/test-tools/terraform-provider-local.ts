// A small real Terraform provider for tests: `hashicorp/local`, built with Go into the cache once and
// found again, laid out as a filesystem mirror for both Terraform and OpenTofu. Run as a program it
// prints what it found as one line of JSON, for tests of packages that import nothing from here.

import { existsSync } from "node:fs";
import { copyFile, mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { buildGoTool } from "./go-tool.ts";
import { isOnPath, TOOLS_CACHE } from "./provide.ts";

const VERSION = "1.4.0";
const NAME = `terraform-provider-local_v${VERSION}`;
const MODULE = "github.com/terraform-providers/terraform-provider-local";
const REGISTRIES = ["registry.terraform.io", "registry.opentofu.org"];

export type ProviderMirror =
  | { readonly kind: "ready"; readonly mirror: string }
  /** It cannot be had on this machine, and why. */
  | { readonly kind: "unavailable"; readonly because: string };

export async function terraformProviderLocal(): Promise<ProviderMirror> {
  const mirror = join(TOOLS_CACHE, "terraform-provider-local", VERSION);
  if (existsSync(mirror)) return { kind: "ready", mirror };
  if (!isOnPath("go")) return { kind: "unavailable", because: "the local provider needs go" };
  try {
    await buildInto(mirror);
    return { kind: "ready", mirror };
  } catch (reason) {
    const said = reason instanceof Error ? reason.message : String(reason);
    const because = `the local provider cannot be built: ${said.trim().split("\n").at(-1)}`;
    return { kind: "unavailable", because };
  }
}

async function buildInto(mirror: string): Promise<void> {
  const binary = join(TOOLS_CACHE, `${NAME}.${process.pid}`);
  const draft = `${mirror}.${process.pid}.draft`;
  try {
    await buildGoTool(
      { name: NAME, module: MODULE, version: `v${VERSION}`, package: MODULE },
      binary,
    );
    for (const registry of REGISTRIES) {
      const place = join(draft, registry, "hashicorp", "local", VERSION, platform());
      await mkdir(place, { recursive: true });
      await copyFile(binary, join(place, `${NAME}_x4`));
    }
    // Two builds at once make the same thing; whoever is second keeps the first one's.
    await rename(draft, mirror).catch((reason: unknown) => {
      if (!existsSync(mirror)) throw reason;
    });
  } finally {
    await rm(binary, { force: true });
    await rm(draft, { recursive: true, force: true });
  }
}

function platform(): string {
  return `${process.platform}_${process.arch === "x64" ? "amd64" : process.arch}`;
}

if (import.meta.main) process.stdout.write(`${JSON.stringify(await terraformProviderLocal())}\n`);
