// A PostgreSQL of a test's own: made in a directory, reached by a socket in it, gone with the test.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, globSync, mkdtempSync, rmSync } from "node:fs";
import { userInfo } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";

const USER = "exclave";

export interface PostgresCluster {
  readonly process: ChildProcess;
  /** The address of a new, empty database. */
  create(): Promise<string>;
  /** Runs statements as its administrator. */
  run(statement: string, database?: string): Promise<readonly Record<string, unknown>[]>;
  /** Ends the server at once, as a crash would, and starts it again on the same data. */
  crash(): Promise<void>;
  stop(): Promise<void>;
}

/** Where its programs are; undefined on a machine that has none. */
export function findPostgres(): string | undefined {
  const onPath = (process.env["PATH"] ?? "").split(delimiter).map((one) => join(one, "postgres"));
  const debian = globSync("/usr/lib/postgresql/*/bin/postgres").toSorted().toReversed();
  const found = [...onPath, ...debian].find((file) => existsSync(file));
  return found && dirname(found);
}

export interface PostgresOptions {
  /** A commit is on the disk when it is answered. A test of what is committed needs no disk. */
  readonly isDurable?: boolean;
}

export async function startPostgres(
  programs: string,
  { isDurable = false }: PostgresOptions = {},
): Promise<PostgresCluster> {
  // Sockets have short paths.
  const directory = mkdtempSync("/tmp/exclave-pg-");
  const owner = ownerOf();
  chmodSync(directory, 0o700);
  if (owner) chownSync(directory, owner.uid, owner.gid);
  const data = join(directory, "data");
  const options = { ...owner, cwd: directory, stdio: "ignore" } as const;
  const init = ["-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
  execFileSync(join(programs, "initdb"), init, options);
  const urlOf = (database: string) =>
    `postgres://${USER}@localhost/${database}?host=${encodeURIComponent(directory)}`;

  let server = await start();
  let databases = 0;
  return {
    get process() {
      return server;
    },
    async create() {
      const name = `test_${++databases}`;
      await run(`CREATE DATABASE ${name}`);
      return urlOf(name);
    },
    run,
    async crash() {
      await end("SIGQUIT");
      server = await start();
    },
    async stop() {
      await end("SIGQUIT");
      rmSync(directory, { recursive: true, force: true });
    },
  };

  async function start(): Promise<ChildProcess> {
    const settings = [
      "listen_addresses=",
      `fsync=${isDurable ? "on" : "off"}`,
      "max_connections=100",
    ];
    const child = spawn(
      join(programs, "postgres"),
      ["-D", data, "-k", directory, ...settings.flatMap((one) => ["-c", one])],
      options,
    );
    for (;;) {
      const isUp = await run("SELECT 1").then(
        () => true,
        () => false,
      );
      if (isUp) return child;
      if (child.exitCode !== null) throw new Error(`postgres ended with ${child.exitCode}`);
      await sleep(50);
    }
  }

  async function run(
    statement: string,
    database = "postgres",
  ): Promise<readonly Record<string, unknown>[]> {
    const client = new Client({ connectionString: urlOf(database) });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(statement)).rows;
    } finally {
      await client.end();
    }
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    if (server.exitCode !== null || server.signalCode !== null) return;
    const exit = once(server, "exit");
    server.kill(signal);
    await exit;
  }
}

/** It does not run as root. */
function ownerOf(): { readonly uid: number; readonly gid: number } | undefined {
  if (userInfo().uid !== 0) return undefined;
  const id = (flag: string) => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}
