// What can befall a running Exclave: the death of any kind of process, and damage to what it keeps.
// Each strike says what it did, so that a round that fails can be told.

import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { World } from "../e2e/harness.ts";
import type { Dice } from "../simulation/dice.ts";

/** Every kind of process, by words of its command line. */
export const PROCESSES = {
  server: ["server/src/main.ts", "--data"],
  signer: ["signer/main.ts"],
  "build agent": ["agent/src/main.ts", "build"],
  "setup agent": ["agent/src/main.ts", "setup"],
  "install agent": ["agent.mjs", "install"],
  "install registry": ["registry.mjs"],
  "sandbox supervisor": ["init.mjs"],
  "job keeper": ["keeper"],
  "job runner": ["runner"],
  "job program": ["apply.sh"],
  "service supervisor": ["supervisor"],
  "service program": ["server.mjs"],
} as const satisfies Record<string, readonly string[]>;

export type ProcessKind = keyof typeof PROCESSES;

/** Kills one process of that kind; says which, or that there is none. */
export function killOne(world: World, kind: ProcessKind, dice: Dice): string {
  const pid = dice.pick(world.pids(...PROCESSES[kind]));
  if (pid === undefined) return `found no ${kind}`;
  try {
    process.kill(pid, "SIGKILL");
    return `killed the ${kind}`;
  } catch {
    return `the ${kind} was gone already`;
  }
}

export interface Damage {
  readonly name: string;
  /** Undefined when there was nothing to damage. */
  readonly strike: (at: DamagedPlace) => string | undefined;
}

export interface DamagedPlace {
  readonly world: World;
  readonly dice: Dice;
  /** The install's directory. */
  readonly install: string;
  /** A copy of the server's database and logs, made earlier in this run. */
  readonly backup: string;
}

export const DAMAGES: readonly Damage[] = [
  {
    name: "journal",
    strike({ world, install }) {
      world.kill(...PROCESSES["install agent"]);
      return removed(join(install, "agent"), /^journal\.db/);
    },
  },
  {
    name: "registry",
    strike({ world, install }) {
      world.kill(...PROCESSES["install registry"]);
      return removed(join(install, "registry", "content"), /./);
    },
  },
  {
    name: "blob",
    strike({ dice, install }) {
      const blob = dice.pick(blobsBelow(join(install, "registry", "content")));
      if (blob === undefined) return undefined;
      const bytes = readFileSync(blob);
      bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 0xff;
      rmSync(blob);
      writeFileSync(blob, bytes, { mode: 0o600 });
      return `flipped a byte of ${blob.slice(install.length)}`;
    },
  },
  {
    name: "state directory",
    strike: ({ install }) => removed(join(install, "state"), /./),
  },
  {
    name: "backup restored",
    strike({ world, backup }) {
      if (!existsSync(backup)) return undefined;
      world.kill(...PROCESSES.server);
      for (const name of ["exclave.db", "exclave.db-wal", "exclave.db-shm"]) {
        rmSync(join(world.home, "server", name), { force: true });
      }
      cpSync(backup, join(world.home, "server"), { recursive: true });
      return "restored the server's database from a backup";
    },
  },
  {
    name: "unpacked images",
    strike: ({ install }) => removed(join(install, "runtime", "images"), /./),
  },
];

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

function removed(directory: string, names: RegExp): string | undefined {
  if (!existsSync(directory)) return undefined;
  const gone = readdirSync(directory).filter((name) => names.test(name));
  for (const name of gone) {
    execFileSync("chmod", ["-R", "u+w", join(directory, name)], { stdio: "ignore" });
    rmSync(join(directory, name), { recursive: true, force: true });
  }
  return gone.length > 0 ? `removed ${gone.join(", ")}` : undefined;
}

function blobsBelow(directory: string): string[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .map((name) => join(directory, name))
    .filter((path) => /[0-9a-f]{64}$/.test(path) && statSync(path).isFile())
    .filter((path) => statSync(path).size > 0);
}
