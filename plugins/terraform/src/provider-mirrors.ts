// Where a build finds providers: directories in the layout of Terraform's filesystem mirrors. Those of
// the source count always; those of the machine only for what a lock file pins, so that the same
// source never makes another artifact on another machine.

import { readFile, stat } from "node:fs/promises";
import { userInfo } from "node:os";
import { isAbsolute, join, normalize, sep } from "node:path";
import { Failure } from "@exclave/plugin-sdk";
import { PROVIDERS } from "./component-state.ts";
import type { LockedProvider } from "./lock-file.ts";
import type { ToolName } from "./tool.ts";

/** A directory the component names as a mirror, and the tool that will look in it. */
export interface NamedMirror {
  readonly providersFrom: string;
  readonly tool: ToolName;
}

/** Mirrors that travel in the source. */
export async function sourceMirrors(files: string, named?: NamedMirror): Promise<string[]> {
  const mirrors = [join(files, PROVIDERS)];
  if (named) {
    const directory = join(files, insideSource(named.providersFrom));
    if (!(await isDirectory(directory))) throw noDirectory(named);
    mirrors.unshift(directory);
  }
  return onlyDirectories(mirrors);
}

function noDirectory({ providersFrom, tool }: NamedMirror): Failure {
  const message = `providersFrom: there is no directory ${providersFrom}`;
  const isWorking = insideSource(providersFrom).split(sep).includes(".terraform");
  const why = `; .terraform is never part of the source, so put the providers in another directory, for example with ${tool} providers mirror vendor/providers`;
  return new Failure("invalid", isWorking ? message + why : message);
}

export function insideSource(providersFrom: string): string {
  const path = normalize(providersFrom);
  if (isAbsolute(path) || path === "." || path.split(sep).includes("..")) {
    throw new Failure("invalid", `providersFrom: ${providersFrom} is no directory in the source`);
  }
  return path;
}

export interface Machine {
  /** What Terraform and OpenTofu themselves would look through on this machine. */
  readonly mirrors: readonly string[];
  /** The tool's own configuration file, where there is one. */
  readonly configFile: string | undefined;
}

export async function readMachine(givenFile: string | undefined): Promise<Machine> {
  const home = homeDirectory();
  const configFiles = [
    ...(givenFile === undefined ? [] : [givenFile]),
    ...(home === undefined ? [] : [join(home, ".terraformrc"), join(home, ".tofurc")]),
  ];
  const configured: string[] = [];
  let configFile: string | undefined;
  for (const file of configFiles) {
    const text = await readFile(file, "utf8").catch(() => undefined);
    if (text === undefined) continue;
    configFile ??= file;
    configured.push(...configuredMirrors(text));
  }
  const shared = ["/usr/local/share", "/usr/share"];
  const implied = [
    ...(home === undefined ? [] : [join(home, ".terraform.d", "plugins")]),
    ...[...(home === undefined ? [] : [join(home, ".local", "share")]), ...shared].flatMap(
      (place) => [
        join(place, "terraform", "plugins"),
        join(place, "terraform", "providers"),
        join(place, "opentofu", "plugins"),
      ],
    ),
  ];
  return { mirrors: await onlyDirectories([...configured, ...implied]), configFile };
}

/** The `filesystem_mirror` blocks of the tool's own configuration file. */
export function configuredMirrors(text: string): string[] {
  const plain = text.replace(/^\s*(#|\/\/).*$/gm, "");
  const blocks = plain.matchAll(/filesystem_mirror\s*\{[^}]*?\bpath\s*=\s*"([^"]+)"/g);
  return [...blocks].map(([, path]) => path ?? "");
}

/** A provider's archive, or a directory with what is in it; undefined where no mirror has it. */
export async function findPackage(
  mirrors: readonly string[],
  { address, version }: Pick<LockedProvider, "address" | "version">,
  platform: string,
): Promise<string | undefined> {
  const type = address.slice(address.lastIndexOf("/") + 1);
  for (const mirror of mirrors) {
    const place = join(mirror, address);
    const archive = join(place, `terraform-provider-${type}_${version}_${platform}.zip`);
    if (await isFile(archive)) return archive;
    const unpacked = join(place, version, platform);
    if (await isDirectory(unpacked)) return unpacked;
  }
  return undefined;
}

/** Of whoever runs the build: the job's own HOME is the job's directory. */
function homeDirectory(): string | undefined {
  try {
    return userInfo().homedir;
  } catch {
    return undefined;
  }
}

async function onlyDirectories(paths: readonly string[]): Promise<string[]> {
  const found = await Promise.all(paths.map(isDirectory));
  return [...new Set(paths.filter((_, index) => found[index]))];
}

async function isDirectory(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() === true;
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() === true;
}
