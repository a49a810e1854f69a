// The home of an install on this machine: one directory that holds all of it, readable by its owner
// alone. `sandbox.json` in it is the sandbox's contract; everything else is found from here.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure, parseSandboxContract, type SandboxContract } from "@exclave/plugin-sdk";

export interface Home {
  readonly directory: string;
  readonly contract: string;
  /** The programs the install runs, and the node that runs them. */
  readonly programs: string;
  readonly node: string;
  readonly registryContent: string;
  readonly tokenKey: string;
  readonly tokenPublicKey: string;
  readonly seeded: string;
  readonly runtime: string;
  readonly state: string;
  readonly run: string;
  readonly logs: string;
  /** Which processes the supervisor runs as, and runs. */
  readonly processes: string;
  readonly joinFile: string;
  /** Written by the agent once it has joined. */
  readonly agentIdentity: string;
  /** Whom the agent trusts; it works for nobody without it. */
  readonly agentTrust: string;
}

export function installHome(directory: string): Home {
  return {
    directory,
    contract: join(directory, "sandbox.json"),
    programs: join(directory, "bin"),
    node: join(directory, "bin", "node"),
    registryContent: join(directory, "registry", "content"),
    tokenKey: join(directory, "registry", "token.key"),
    tokenPublicKey: join(directory, "registry", "token.pub"),
    seeded: join(directory, "registry", "seeded.json"),
    runtime: join(directory, "runtime"),
    state: join(directory, "state"),
    run: join(directory, "run"),
    logs: join(directory, "log"),
    processes: join(directory, "init"),
    joinFile: join(directory, "join"),
    agentIdentity: join(directory, "agent", "identity.json"),
    agentTrust: join(directory, "agent", "trust.json"),
  };
}

/** Undefined when no install was ever set up there. */
export async function readContract(home: Home): Promise<SandboxContract | undefined> {
  const text = await readFile(home.contract, "utf8").catch((reason: NodeJS.ErrnoException) => {
    if (reason.code === "ENOENT") return undefined;
    throw reason;
  });
  if (text === undefined) return undefined;
  const contract = parseSandboxContract(text);
  if (contract?.kind === "local") return contract;
  throw new Failure("conflict", `${home.contract} is not the contract of a local sandbox`);
}
