// Sets an install up as a directory on this machine: its own registry, its own agent, and a small
// supervisor that keeps both up. What a network, a cluster and identities are elsewhere is here one
// directory that only its owner can read.

import { spawn } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  choosePort,
  definePlugin,
  Failure,
  type OperationContext,
  type Plugin,
  z,
} from "@exclave/plugin-sdk";
import { programEnvironment } from "./environment.ts";
import { isThere, writeWhole } from "./files.ts";
import { type Contract, type Home, installHome, readContract } from "./home.ts";
import { runningProcess, signal } from "./process-record.ts";
import { installPrograms, type ProgramSource } from "./programs.ts";
import { stopInstall, supervisorRecord } from "./stop-install.ts";

const Config = z.object({
  directory: z
    .string()
    .refine(isAbsolute, "must be an absolute path")
    .describe("The install's home on this machine; made if it is not there."),
  install: z.string().optional().describe("The install's name."),
  serverUrl: z.url().optional().describe("Where the server is, for people to read."),
});
type Context = OperationContext<z.infer<typeof Config>>;

const Parameters = z.object({ joinString: z.string().optional() });
const Seeded = z.object({ digest: z.string() });

export interface LocalSandboxOptions {
  readonly programs: ProgramSource;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** How long registry and agent may take to come up. */
  readonly readyWithinMs?: number;
}

export function createLocalSandbox(options: LocalSandboxOptions): Plugin {
  return definePlugin({
    type: "local",
    description: "An install as a directory on this machine, for development and small installs",
    config: Config,
    outputs: {
      contract: { type: "any", description: "What the sandbox offers.", sensitive: false },
    },
    source: "none",
    artifactFor: { destroy: "ignored", status: "ignored" },

    async apply(context) {
      const home = installHome(context.config.directory);
      const contract = await claimDirectory(context, home);
      const changed = await installPrograms(home, options.programs);
      if (changed.length > 0) context.log(`programs brought up to date: ${changed.join(", ")}`);
      await makeKeys(home);
      await seedRegistry(context, home);
      await leaveJoinString(context, home);
      await startSupervisor(context, home, options, changed.length > 0);
      await waitUntilReady(context, home, contract, options.readyWithinMs ?? 60_000);
      context.output("contract", contract);
    },

    async destroy(context) {
      const home = installHome(context.config.directory);
      if (!(await isThere(home.directory))) {
        return context.log(`nothing is there: ${home.directory} does not exist`);
      }
      // Only what was made here is removed: a mistyped directory must not cost anybody their data.
      const contract = await readContract(home);
      if (!contract && !(await isEmpty(home.directory))) {
        const message = `${home.directory} is not the home of an install and is left alone`;
        throw new Failure("conflict", message);
      }
      await stopInstall({ home, log: (message) => context.log(message) });
      await rm(home.directory, { recursive: true, force: true, maxRetries: 3 });
      context.log(`removed ${home.directory} with its registry, its state and its agent`);
      context.resource("destroyed", "directory", home.directory);
    },

    async status(context) {
      const home = installHome(context.config.directory);
      const contract = await readContract(home);
      if (!contract) return { health: "missing", because: `${home.directory} is not set up` };
      const problem = await findProblem(home, contract);
      return problem === undefined
        ? { health: "healthy", because: "supervisor, registry and agent are up" }
        : { health: "degraded", because: problem };
    },
  });
}

export const plugin = createLocalSandbox({
  programs: { directory: import.meta.dirname, node: process.execPath },
  environment: process.env,
});

/** Makes the directory this install's, before anything else is put there. */
async function claimDirectory(context: Context, home: Home): Promise<Contract> {
  const name = context.config.install ?? context.install;
  const found = await readContract(home);
  if (found && found.install !== name) {
    const message = `${home.directory} is the home of install ${found.install}`;
    throw new Failure("conflict", message);
  }
  if (!found && (await isThere(home.directory)) && !(await isEmpty(home.directory))) {
    throw new Failure("conflict", `${home.directory} holds something else already`);
  }
  await mkdir(home.directory, { recursive: true, mode: 0o700 });
  const contract = found ?? (await newContract(name, home));
  if (!found) {
    await writeWhole(home.contract, JSON.stringify(contract, undefined, 2));
    context.resource("created", "directory", home.directory);
  }
  const places = [home.registryContent, home.runtime, home.state, home.run, home.logs];
  for (const place of [...places, home.processes, join(home.agentIdentity, "..")]) {
    await mkdir(place, { recursive: true, mode: 0o700 });
  }
  return contract;
}

async function newContract(install: string, home: Home): Promise<Contract> {
  return {
    version: 1,
    kind: "local",
    install,
    registry: {
      type: "embedded",
      // Chosen once: artifacts are named by it for as long as the install lives.
      url: `http://127.0.0.1:${await choosePort()}`,
      issuer: `exclave-install-${install}`,
      service: `exclave-registry-${install}`,
    },
    runtime: { type: "process", directory: home.runtime },
    state: { directory: home.state },
    run: { directory: home.run },
  };
}

/** The agent signs tokens for the install's registry with one half; the registry knows the other. */
async function makeKeys(home: Home): Promise<void> {
  if (await isThere(home.tokenPublicKey)) return;
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  await writeWhole(home.tokenKey, privateKey.export({ type: "pkcs8", format: "pem" }).toString());
  await writeWhole(
    home.tokenPublicKey,
    publicKey.export({ type: "spki", format: "pem" }).toString(),
  );
}

/** The first sync is run by the runner, so the runner has to be there before it. */
async function seedRegistry(context: Context, home: Home): Promise<void> {
  const { layout, artifact } = context;
  if (layout === undefined || artifact === undefined) {
    throw new Failure("invalid", "setup needs the runner image as its artifact");
  }
  const before = await readFile(home.seeded, "utf8").catch(() => undefined);
  if (before && Seeded.safeParse(JSON.parse(before)).data?.digest === artifact.digest) return;
  context.log(`putting ${artifact.repository} into the install's registry`);
  const program = [join(home.programs, "registry.mjs"), "--directory", home.registryContent];
  const { repository, digest } = artifact;
  const seed = ["--import-layout", layout, "--repository", repository, "--digest", digest];
  await context.run(home.node, [...program, ...seed, "--tag", "seed"]);
  await writeWhole(
    home.seeded,
    JSON.stringify({ digest: artifact.digest } satisfies z.infer<typeof Seeded>),
  );
}

async function leaveJoinString({ parameters }: Context, home: Home): Promise<void> {
  if (await isThere(home.agentIdentity)) return;
  const { joinString } = Parameters.parse(parameters);
  if (joinString === undefined) {
    throw new Failure("invalid", "setup needs a join string for the install's agent");
  }
  await writeWhole(home.joinFile, joinString);
}

async function startSupervisor(
  context: Context,
  home: Home,
  { environment }: LocalSandboxOptions,
  hasNewPrograms: boolean,
): Promise<void> {
  const running = await runningProcess(supervisorRecord(home));
  if (running) {
    if (!hasNewPrograms) return;
    context.log("restarting agent and registry with the new programs");
    signal(running.pid, "SIGHUP");
    return;
  }
  const log = openSync(join(home.logs, "init.log"), "a", 0o600);
  try {
    const args = [join(home.programs, "init.mjs"), "--home", home.directory];
    const child = spawn(home.node, args, {
      cwd: home.directory,
      env: programEnvironment(environment, home.directory),
      stdio: ["ignore", log, log],
      // A session of its own: it is what this job leaves behind.
      detached: true,
    });
    await once(child, "spawn");
    child.unref();
  } catch (cause) {
    throw new Failure("plugin", "the supervisor of the install cannot be started", { cause });
  } finally {
    closeSync(log);
  }
}

async function waitUntilReady(
  context: Context,
  home: Home,
  contract: Contract,
  withinMs: number,
): Promise<void> {
  const until = performance.now() + withinMs;
  let shown: string | undefined;
  for (;;) {
    const problem = await findProblem(home, contract);
    if (problem === undefined) return;
    if (problem !== shown) context.progress(problem);
    shown = problem;
    if (context.signal.aborted) throw new Failure("cancelled", "stopped while the install came up");
    if (performance.now() >= until) {
      const said = (await lastLines(home)).join("; ");
      throw new Failure("timeout", `the install did not come up: ${problem}${said && `. ${said}`}`);
    }
    await sleep(100);
  }
}

/** What keeps the sandbox from being whole, in words; undefined when nothing does. */
async function findProblem(home: Home, { registry }: Contract): Promise<string | undefined> {
  if (!(await runningProcess(supervisorRecord(home)))) return "the supervisor is not running";
  if (!(await answers(registry.url))) return `the registry does not answer at ${registry.url}`;
  if (!(await isThere(home.agentIdentity))) return "the agent has not joined yet";
  return undefined;
}

/** A registry that asks for a token is one that answers. */
async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/v2/`, { signal: AbortSignal.timeout(2_000) });
    await response.body?.cancel();
    return response.status === 200 || response.status === 401;
  } catch {
    return false;
  }
}

async function lastLines(home: Home): Promise<string[]> {
  const names = ["init", "registry", "agent"];
  const last = await Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(home.logs, `${name}.log`), "utf8").catch(() => "");
      const line = text.trimEnd().split("\n").at(-1);
      return line ? [`${name} said: ${line}`] : [];
    }),
  );
  return last.flat();
}

async function isEmpty(directory: string): Promise<boolean> {
  return (await readdir(directory)).length === 0;
}
