// The server's address: port and whether it speaks TLS are chosen once and kept, because agents come
// back to the address they joined at.

import { once } from "node:events";
import { createServer } from "node:net";
import { readIfThere, writeDurably } from "@exclave/machine";
import type { Home } from "../connection/home.ts";
import { CliProblem } from "../program/problem.ts";

export const USUAL_PORT = 8420;

/** A server that speaks TLS has an authority of its own beside its keys. */
export async function chooseTls(home: Home, isWished: boolean): Promise<boolean> {
  if ((await readIfThere(home.serverCaFile)) !== undefined) return true;
  if (!isWished || (await readIfThere(home.portFile)) === undefined) return isWished;
  throw new CliProblem(
    "conflict",
    `the server in ${home.directory} was begun without TLS, and its agents know it by that`,
    { hint: "leave --tls out, or set EXCLAVE_HOME to start another server" },
  );
}

export async function choosePort(home: Home, wished: number | undefined): Promise<number> {
  const kept = Number((await readIfThere(home.portFile))?.trim() || Number.NaN);
  const port = Number.isInteger(kept)
    ? await keptPort(kept, wished, home)
    : await firstPort(wished);
  await writeDurably(home.portFile, `${port}\n`);
  return port;
}

async function keptPort(kept: number, wished: number | undefined, home: Home): Promise<number> {
  if (wished !== undefined && wished !== kept) {
    throw new CliProblem(
      "conflict",
      `the server in ${home.directory} has port ${kept}, and its agents know it by that`,
      {
        hint: "leave --port out, or set EXCLAVE_HOME to start another server",
      },
    );
  }
  if (await isFree(kept)) return kept;
  throw new CliProblem(
    "conflict",
    `port ${kept} is taken by another program, and the agents of this server expect it there`,
    {
      hint: `end the program that listens on 127.0.0.1:${kept} and start again`,
    },
  );
}

async function firstPort(wished: number | undefined): Promise<number> {
  if (wished === undefined) return usualOrFreePort(USUAL_PORT);
  if (await isFree(wished)) return wished;
  throw new CliProblem("conflict", `port ${wished} is taken by another program`, {
    hint: "name another with --port, or leave it out and a free one is found",
  });
}

export async function usualOrFreePort(usual: number): Promise<number> {
  return (await isFree(usual)) ? usual : freePortAfter(usual);
}

async function isFree(port: number): Promise<boolean> {
  const probe = createServer();
  try {
    probe.listen({ host: "127.0.0.1", port });
    await once(probe, "listening");
    return true;
  } catch {
    return false;
  } finally {
    probe.close();
  }
}

/**
 * The next one that is free. Never one the system would choose: those are shared with outgoing
 * connections, and an agent that dials a server that is away could take its port by a TCP self-connect.
 */
async function freePortAfter(usual: number): Promise<number> {
  for (let port = usual + 1; port < usual + 1_000; port++) {
    if (await isFree(port)) return port;
  }
  throw new CliProblem("failed", `no port from ${usual} to ${usual + 1_000} is free`, {
    hint: "name one with --port",
  });
}
