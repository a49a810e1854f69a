// The programs an install runs are its own copies: the image they came with belongs to the setup and
// goes with it.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { chmod, copyFile, link, mkdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "@exclave/plugin-sdk";
import { isThere } from "./files.ts";
import type { Home } from "./home.ts";

const PROGRAMS = ["agent.mjs", "keeper.mjs", "registry.mjs", "init.mjs"] as const;

export interface ProgramSource {
  /** Where the programs lie, beside the plugin itself. */
  readonly directory: string;
  readonly node: string;
}

/** Brings the programs up to date; returns the names of those that changed. */
export async function installPrograms(home: Home, source: ProgramSource): Promise<string[]> {
  await mkdir(home.programs, { recursive: true, mode: 0o700 });
  const changed: string[] = [];
  for (const name of PROGRAMS) {
    const from = join(source.directory, name);
    if (!(await isThere(from))) {
      throw new Failure("plugin", `the sandbox image does not hold the program ${name}`);
    }
    if (await replace(from, join(home.programs, name), "copy")) changed.push(name);
  }
  // Over a hundred megabytes, and never written to: a second name for it where that is possible.
  if (await replace(source.node, home.node, "link")) changed.push("node");
  return changed;
}

async function replace(from: string, to: string, how: "copy" | "link"): Promise<boolean> {
  if (await isSameFile(from, to)) return false;
  const draft = `${to}.draft`;
  await rm(draft, { force: true });
  if (how === "copy" || !(await tryLink(from, draft))) {
    await copyFile(from, draft);
    await chmod(draft, how === "link" ? 0o700 : 0o600);
  }
  // A rename, so that whoever runs the old one goes on with the old one.
  await rename(draft, to);
  return true;
}

async function tryLink(from: string, to: string): Promise<boolean> {
  return link(from, to).then(
    () => true,
    () => false,
  );
}

async function isSameFile(left: string, right: string): Promise<boolean> {
  const there = await stat(right).catch(() => undefined);
  if (!there) return false;
  const here = await stat(left);
  if (here.dev === there.dev && here.ino === there.ino) return true;
  return here.size === there.size && (await hashOf(left)) === (await hashOf(right));
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return hash.digest("hex");
}
