// Sets an install up as containers of one engine, over its Docker-compatible socket: a network, a registry that
// listens on no port, an agent that is nobody on the machine, and a gate through which the agent and its jobs reach
// the engine as far as this install goes. What is there lies in the engine and is found by the install's label.

import { generateKeyPairSync } from "node:crypto";
import { isAbsolute } from "node:path";
import {
  definePlugin,
  Failure,
  type OperationContext,
  type Plugin,
  SandboxContract,
  z,
} from "@exclave/plugin-sdk";
import {
  clearEngine,
  createEngineClient,
  directoryArchive,
  type EngineClient,
  enginePath,
  imageRepository,
  listEngine,
} from "@exclave/plugin-sdk/engine";
import { contractOf } from "./contract.ts";
import { giveFiles, makeNetwork, makeVolumes, removeContainer, runOnce } from "./engine-parts.ts";
import { findProblem, waitUntilReady } from "./find-problem.ts";
import { type Names, namesOf, PLACES, SYSTEM_PARTS, type SystemPart, USERS } from "./names.ts";
import { flags, type SystemWishes, systemContainer } from "./system-containers.ts";
import { systemImage } from "./system-image.ts";

const USUAL_SOCKET = "/run/podman/podman.sock";

const Config = z.object({
  socket: z
    .string()
    .refine(isAbsolute, "must be an absolute path")
    .default(USUAL_SOCKET)
    .describe("The engine's socket; alone in its directory, which the gate's container sees."),
  network: z
    .enum(["own", "host"])
    .default("own")
    .describe(
      "What the agent, and jobs that reach out, are on; host for a server on this machine.",
    ),
  userNamespace: z
    .enum(["auto"])
    .optional()
    .describe("Has the engine map every job's users to ones of their own, where it can."),
  exec: z
    .enum(["allowed", "refused"])
    .default("refused")
    .describe("Whether `exclave exec` may run commands here."),
});
type Context = OperationContext<z.infer<typeof Config>>;

const Parameters = z.object({
  joinString: z.string().optional(),
  /** Setup once more: the agent joins anew, whatever identity it has. */
  rejoin: z.boolean().default(false),
});

const Id = z.object({ Id: z.string() });
const LOAD_TIMEOUT_MS = 10 * 60_000;
const STOP_SECONDS = 10;

export interface PodmanSandboxOptions {
  /** Where the programs lie, beside the plugin itself. */
  readonly programs: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** How long the install may take to come up. */
  readonly readyWithinMs?: number;
}

export function createPodmanSandbox(options: PodmanSandboxOptions): Plugin {
  return definePlugin({
    type: "podman",
    description: "An install as containers of a Podman or Docker engine",
    config: Config,
    outputs: {
      contract: { type: "any", description: "What the sandbox offers.", sensitive: false },
    },
    source: "none",
    artifactFor: { destroy: "ignored", status: "ignored" },

    async apply(context) {
      const { engine, names } = placeOf(context);
      await mustAnswer(engine, context);
      const network = context.config.network === "host" ? "host" : names.network;
      const contract = contractOf(names, {
        install: installOf(context),
        runner: runnerOf(context),
        network,
        userNamespace: context.config.userNamespace,
        allowExec: context.config.exec === "allowed",
      });
      const isNew = (await listEngine(ownerOf(context, names))).containers.length === 0;
      if (network === names.network) await makeNetwork(engine, names);
      await makeVolumes(engine, names);
      const image = await loadImage(context, engine, names, options.programs);
      const { socket } = context.config;
      const environment = environmentOf(options.environment);
      const wishes = { names, contract, image, socket, network, environment };
      await seedRegistry(context, engine, wishes);
      await startParts(context, engine, wishes);
      await waitUntilReady(context, engine, names, options.readyWithinMs ?? 120_000);
      if (isNew) context.resource("created", "install", names.owner);
      context.output("contract", contract);
    },

    async destroy(context) {
      const { engine, names } = placeOf(context);
      await mustAnswer(engine, context);
      // The agent first, so that it starts nothing while the rest goes.
      for (const part of ["agent", "registry", "gate"] as const) {
        await removeContainer(engine, names.containers[part], STOP_SECONDS);
      }
      const left = await clearEngine(ownerOf(context, names));
      const what = Object.entries(left).flatMap(([kind, ids]: [string, readonly string[]]) =>
        ids.map((id) => `${kind} ${id}`),
      );
      if (what.length > 0) {
        throw new Failure("conflict", `the engine does not let go of ${what.join(", ")}`);
      }
      context.log(`nothing of ${names.owner} is left in the engine`);
      context.resource("destroyed", "install", names.owner);
    },

    async status(context) {
      const { engine, names } = placeOf(context);
      const { containers } = await listEngine(ownerOf(context, names));
      if (containers.length === 0) {
        return { health: "missing", because: `the engine holds nothing of ${names.owner}` };
      }
      const problem = await findProblem(engine, names);
      return problem === undefined
        ? { health: "healthy", because: "gate, registry and agent are up" }
        : { health: "degraded", because: problem };
    },
  });
}

export const plugin = createPodmanSandbox({
  programs: import.meta.dirname,
  environment: process.env,
});

function placeOf({ config, installId }: Context): { engine: EngineClient; names: Names } {
  return { engine: createEngineClient(config.socket), names: namesOf(installId) };
}

function ownerOf({ config: { socket } }: Context, { owner }: Names) {
  return { socket, owner };
}

function installOf({ installId: id, install: name }: Context): SandboxContract["install"] {
  return SandboxContract.shape.install.parse({ id, name });
}

function runnerOf({ artifact }: Context): { repository: string; digest: string } {
  if (artifact) return { repository: artifact.repository, digest: artifact.digest };
  throw new Failure("invalid", "setup needs the runner image as its artifact");
}

async function mustAnswer(engine: EngineClient, { config: { socket } }: Context): Promise<void> {
  try {
    await engine.read("/info", z.unknown());
  } catch (cause) {
    const message = `no container engine answers at ${socket}; start one there, such as \`podman system service --time 0 unix://${socket}\`, or give another socket`;
    throw new Failure("unavailable", message, { cause });
  }
}

async function loadImage(
  context: Context,
  engine: EngineClient,
  { owner }: Names,
  programs: string,
): Promise<string> {
  const { layout } = context;
  if (layout === undefined)
    throw new Failure("invalid", "setup needs the runner image as its artifact");
  const image = await systemImage({ layout, runner: runnerOf(context).digest, programs });
  const tag = `${imageRepository(owner)}:system-${image.id.slice(7, 19)}`;
  const there = await engine.find(`/images/${encodeURIComponent(tag)}/json`, Id);
  if (there?.Id !== image.id) {
    context.progress("load the image of agent, registry and gate into the engine");
    await engine.send("POST", enginePath("/images/load", { quiet: 1 }), {
      archive: image.read(tag),
      timeoutMs: LOAD_TIMEOUT_MS,
    });
  }
  return image.id;
}

/** The first sync is run by the runner, so the runner has to be there before it. */
async function seedRegistry(
  context: Context,
  engine: EngineClient,
  wishes: SystemWishes,
): Promise<void> {
  const { names } = wishes;
  const { repository, digest } = runnerOf(context);
  context.progress("put the runner into the install's registry");
  const seed = systemContainer("registry", wishes) as { HostConfig: object };
  const order = {
    ...seed,
    Cmd: [
      "/exclave/registry.mjs",
      ...flags({
        directory: `${PLACES.registry}/content`,
        "import-layout": PLACES.seed,
        repository,
        digest,
        tag: "seed",
      }),
    ],
    HostConfig: {
      ...seed.HostConfig,
      RestartPolicy: { Name: "no" },
      Mounts: [
        { Type: "volume", Source: names.volumes.registry, Target: PLACES.registry },
        { Type: "volume", Source: names.volumes.seed, Target: PLACES.seed },
      ],
    },
  };
  const owner = { uid: USERS.registry, gid: USERS.registry };
  // The registry stands still while its content is written from beside it.
  await removeContainer(engine, names.containers.registry, STOP_SECONDS);
  await runOnce(engine, `${names.owner}-seed`, order, async (id) => {
    await giveFiles(engine, id, PLACES.registry, { owner, files: {} });
    await engine.send("PUT", enginePath(`/containers/${id}/archive`, { path: PLACES.seed }), {
      archive: directoryArchive(context.layout ?? "", owner),
      timeoutMs: LOAD_TIMEOUT_MS,
    });
  });
  await engine.send("DELETE", `/volumes/${names.volumes.seed}`, { expected: [404, 409] });
}

/** New keys for the registry each time: nothing lasting hangs on them. */
async function startParts(
  context: Context,
  engine: EngineClient,
  wishes: SystemWishes,
): Promise<void> {
  const { names, contract } = wishes;
  const keys = generateKeyPairSync("ed25519");
  const tokenKey = keys.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  const tokenPublicKey = keys.publicKey.export({ type: "spki", format: "pem" }).toString();
  const join = await joinStringFor(context, engine, names);
  const files: Record<SystemPart, Record<string, string>> = {
    gate: { "token.pub": tokenPublicKey },
    registry: { "token.pub": tokenPublicKey },
    agent: {
      "sandbox.json": JSON.stringify(contract, undefined, 2),
      "registry/token.key": tokenKey,
      ...(join !== undefined && { join }),
    },
  };
  const places = { gate: PLACES.gate, registry: PLACES.registry, agent: PLACES.home };
  for (const part of SYSTEM_PARTS) {
    const name = names.containers[part];
    context.progress(`start the ${part}`);
    await removeContainer(engine, name, STOP_SECONDS);
    const path = enginePath("/containers/create", { name });
    await engine.send("POST", path, { json: systemContainer(part, wishes) });
    const { Id: id } = await engine.read(`/containers/${name}/json`, Id);
    const owner = { uid: USERS[part], gid: USERS[part] };
    await giveFiles(engine, id, places[part], { owner, files: files[part] });
    if (part === "gate") await giveFiles(engine, id, PLACES.sockets, { owner, mode: 0o1777 });
    // The agent looks through it for the gate's socket, and nobody else has it mounted.
    if (part === "gate") await giveFiles(engine, id, PLACES.gate, { owner, mode: 0o755 });
    await engine.send("POST", `/containers/${id}/start`, { expected: [304] });
  }
}

/** Undefined where the agent has an identity and is to keep it. */
async function joinStringFor(
  { parameters }: Context,
  engine: EngineClient,
  names: Names,
): Promise<string | undefined> {
  const { joinString, rejoin } = Parameters.parse(parameters);
  const problem = rejoin ? "asked to join anew" : await findProblem(engine, names, ["agent"]);
  if (problem === undefined) return undefined;
  if (joinString !== undefined) return joinString;
  throw new Failure("invalid", "setup needs a join string for the install's agent");
}

const PASSED_ON = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "EXCLAVE_INSECURE_HTTP"] as const;

function environmentOf(given: PodmanSandboxOptions["environment"]): Record<string, string> {
  return Object.fromEntries(
    PASSED_ON.flatMap((name) => {
      const value = given[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}
