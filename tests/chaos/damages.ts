// What can befall the things a running Exclave keeps, and its surroundings: files lost or damaged, an
// older backup, a full disk, a wrong clock. What goes away by itself is undone after a while.

import { execFileSync, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { World } from "../e2e/testing/harness.ts";
import type { Dice } from "../simulation/dice.ts";
import type { Disk } from "./disk.ts";
import { PROCESSES } from "./strikes.ts";

export interface DamagedPlace {
  readonly world: World;
  readonly dice: Dice;
  /** The install's directory. */
  readonly install: string;
  /** A copy of the server's database, made earlier in this run. */
  readonly backup: string;
  readonly disk: Disk;
  /** Where the offsets of the programs' clocks lie. */
  readonly clocks: string;
}

export interface Damaged {
  readonly what: string;
  /** Present for what goes away again: done a few seconds later. */
  readonly undo?: () => void;
}

/** Undefined when there was nothing to damage. */
type Strike = (at: DamagedPlace) => Damaged | undefined;

const HOUR_MS = 3_600_000;

export const DAMAGES = {
  journal({ world, install }) {
    world.kill(...PROCESSES["install agent"]);
    return removed(join(install, "agent"), /^journal\.db/);
  },
  "journal and vault"({ world, install }) {
    world.kill(...PROCESSES["install agent"]);
    removed(join(install, "vault"), /./);
    return removed(join(install, "agent"), /^(journal\.db|vault\.key)/);
  },
  identity({ world, install }) {
    world.kill(...PROCESSES["install agent"]);
    return removed(join(install, "agent"), /^identity\.json/);
  },
  trust({ world, install }) {
    world.kill(...PROCESSES["install agent"]);
    return removed(join(install, "agent"), /^trust\.json/);
  },
  registry({ world, install }) {
    world.kill(...PROCESSES["install registry"]);
    return removed(join(install, "registry", "content"), /./);
  },
  "registry's key": ({ install }) => removed(join(install, "registry"), /^token\.key$/),
  "registry's public key"({ world, install }) {
    const what = removed(join(install, "registry"), /^token\.pub$/);
    world.kill(...PROCESSES["install registry"]);
    return what;
  },
  blob({ dice, install }) {
    const blob = dice.pick(blobsBelow(join(install, "registry", "content")));
    if (blob === undefined) return undefined;
    const bytes = readFileSync(blob);
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 0xff;
    rmSync(blob);
    writeFileSync(blob, bytes, { mode: 0o600 });
    return { what: `flipped a byte of ${blob.slice(install.length)}` };
  },
  "state directory": ({ install }) => removed(join(install, "runtime", "state"), /./),
  "unpacked images": ({ install }) => removed(join(install, "runtime", "images"), /./),
  "backup restored"({ world, backup }) {
    if (!existsSync(join(backup, "exclave.db"))) return undefined;
    world.kill(...PROCESSES.server);
    for (const name of ["exclave.db", "exclave.db-wal", "exclave.db-shm"]) {
      rmSync(join(world.home, "server", name), { force: true });
    }
    cpSync(backup, join(world.home, "server"), { recursive: true });
    return { what: "restored the server's database from a backup" };
  },
  "disk full"({ disk }) {
    if (!disk.canBeFull) return undefined;
    disk.fill();
    return { what: "left no room on the disk", undo: () => disk.free() };
  },
  "server's clock": (at) => clockSet(at, "server"),
  "agent's clock": (at) => clockSet(at, "install-agent"),
} as const satisfies Record<string, Strike>;

export type DamageKind = keyof typeof DAMAGES;
export const DAMAGE_KINDS = Object.keys(DAMAGES) as DamageKind[];

/** Wrong by up to three hours, either way. */
function clockSet({ dice, clocks }: DamagedPlace, program: string): Damaged {
  const offset = Math.round((dice.roll() * 6 - 3) * HOUR_MS);
  mkdirSync(clocks, { recursive: true });
  const file = join(clocks, program);
  writeFileSync(file, `${offset}\n`);
  const undo = () => rmSync(file, { force: true });
  return {
    what: `set the clock of the ${program} by ${Math.round(offset / 60_000)} minutes`,
    undo,
  };
}

/** The server's database as a backup holds it. */
export function backUp(world: World, to: string): void {
  rmSync(to, { recursive: true, force: true });
  const source = join(world.home, "server", "exclave.db");
  if (!existsSync(source)) return;
  execFileSync(process.execPath, [
    "--no-warnings",
    "-e",
    `const { DatabaseSync } = require("node:sqlite");
     require("node:fs").mkdirSync(process.argv[2], { recursive: true, mode: 0o700 });
     new DatabaseSync(process.argv[1]).exec("VACUUM INTO '" + process.argv[2] + "/exclave.db'");`,
    source,
    to,
  ]);
}

function removed(directory: string, names: RegExp): Damaged | undefined {
  if (!existsSync(directory)) return undefined;
  const gone = readdirSync(directory).filter((name) => names.test(name));
  for (const name of gone) {
    // Whoever writes there still runs: what is gone in between needs no removal.
    spawnSync("chmod", ["-R", "u+w", join(directory, name)], { stdio: "ignore" });
    rmSync(join(directory, name), { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  }
  return gone.length > 0 ? { what: `removed ${gone.join(", ").slice(0, 200)}` } : undefined;
}

function blobsBelow(directory: string): string[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .map((name) => join(directory, name))
    .filter((path) => /[0-9a-f]{64}$/.test(path) && statSync(path).isFile())
    .filter((path) => statSync(path).size > 0)
    .toSorted();
}
