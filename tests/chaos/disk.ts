// A real disk that can be full: the home of the run lies on a small file system of its own, which is
// made as small as what lies on it. Where mounting is not allowed, the strike cannot be played.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmdirSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Disk {
  readonly canBeFull: boolean;
  /** Leaves room for nothing. */
  fill(): void;
  free(): void;
  unmount(): void;
}

const SIZE = "6g";
const FILLS_MAX = 50;

export function mountDisk(directory: string): Disk {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const options = `size=${SIZE},mode=0700`;
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", options, "chaos", directory]);
  const canBeFull = mounted.status === 0;
  return {
    canBeFull,
    fill() {
      for (let n = 1; ; n++) {
        const { blocks, bfree, bsize } = statfsSync(directory);
        // As much as there is: the next page has no place.
        if (resize(Math.max(1, (blocks - bfree) * bsize))) return;
        // What runs there has written since: less than there is cannot be had.
        if (n === FILLS_MAX) throw new Error(`the disk at ${directory} cannot be made full`);
      }
    },
    free() {
      if (!resize(SIZE)) throw new Error(`the disk at ${directory} cannot be given room again`);
    },
    unmount() {
      if (canBeFull) execFileSync("umount", ["--lazy", directory]);
    },
  };

  function resize(size: number | string): boolean {
    return spawnSync("mount", ["-o", `remount,size=${size}`, directory]).status === 0;
  }
}

/** Runs this program in namespaces of its own, where it may mount; undefined where that is not allowed. */
export function inOwnNamespace(program: string, args: readonly string[]): number | undefined {
  const own = ["--user", "--map-root-user", "--mount"];
  if (spawnSync("unshare", [...own, "true"]).status !== 0) return undefined;
  const env = { ...process.env, [IN_NAMESPACE]: "1" };
  const child = [process.execPath, program, ...args];
  return spawnSync("unshare", [...own, ...child], { stdio: "inherit", env }).status ?? 1;
}

export const IN_NAMESPACE = "EXCLAVE_CHAOS_NAMESPACE";

export function mayMount(): boolean {
  const place = mkdtempSync(join(tmpdir(), "exclave-mount-"));
  const trial = spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m", "chaos", place]);
  if (trial.status === 0) spawnSync("umount", [place]);
  rmdirSync(place);
  return trial.status === 0;
}
