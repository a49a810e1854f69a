// Where everything of this machine lies: settings, and what `exclave up` runs.

import { homedir } from "node:os";
import { join, resolve } from "node:path";

export interface Home {
  readonly directory: string;
  readonly settingsFile: string;
  readonly serverDirectory: string;
  readonly adminTokenFile: string;
  /** Of the server's own certificate authority, where it has one. */
  readonly serverCaFile: string;
  /** Certificates of contexts, found by their fingerprint. */
  readonly caDirectory: string;
  readonly portFile: string;
  readonly agentsDirectory: string;
  readonly installsDirectory: string;
  /** The socket of a container engine that `up` started. */
  readonly engineDirectory: string;
  /** Images of an installed package, packed at its first start. */
  readonly imagesDirectory: string;
  readonly logDirectory: string;
  readonly runDirectory: string;
  /** What a running `exclave up` says of itself. */
  readonly upFile: string;
}

export function homeOf(environment: Readonly<Record<string, string | undefined>>): Home {
  const directory = resolve(environment.EXCLAVE_HOME || join(homedir(), ".exclave"));
  const serverDirectory = join(directory, "server");
  const runDirectory = join(directory, "run");
  return {
    directory,
    settingsFile: join(directory, "config.yaml"),
    serverDirectory,
    adminTokenFile: join(serverDirectory, "admin-token"),
    serverCaFile: join(serverDirectory, "keys", "ca.crt"),
    caDirectory: join(directory, "ca"),
    portFile: join(serverDirectory, "port"),
    agentsDirectory: join(directory, "agents"),
    installsDirectory: join(directory, "installs"),
    engineDirectory: join(directory, "engine"),
    imagesDirectory: join(directory, "images"),
    logDirectory: join(directory, "log"),
    runDirectory,
    upFile: join(runDirectory, "up.json"),
  };
}
