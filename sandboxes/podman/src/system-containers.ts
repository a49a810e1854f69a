// The three containers that an install consists of beside its jobs: the gate before the engine, the registry, the
// agent. Each may do what its part needs and nothing else; the engine's socket is in the gate's alone.

import { basename, dirname } from "node:path";
import type { SandboxContract } from "@exclave/plugin-sdk";
import { LABELS } from "@exclave/plugin-sdk/engine";
import { type Names, PLACES, SOCKETS, type SystemPart, USERS } from "./names.ts";

export interface SystemWishes {
  readonly names: Names;
  readonly contract: SandboxContract;
  /** The image's id in the engine. */
  readonly image: string;
  /** The engine's socket, by its place on the engine's machine. */
  readonly socket: string;
  readonly network: string;
  readonly environment: Readonly<Record<string, string>>;
}

const NODE = "/exclave/bin/node";
const MIB = 1024 ** 2;

export function systemContainer(part: SystemPart, wishes: SystemWishes): object {
  const { names, image } = wishes;
  const user = USERS[part];
  const { command, mounts, network, options = {} } = PARTS[part](wishes);
  return {
    Image: image,
    Entrypoint: [NODE],
    Cmd: command,
    User: `${user}:${user}`,
    WorkingDir: "/",
    Env: Object.entries({ HOME: "/tmp", ...wishes.environment }).map(([k, v]) => `${k}=${v}`),
    Labels: { [LABELS.owner]: names.owner, [LABELS.system]: part },
    NetworkDisabled: network === "none",
    HostConfig: {
      NetworkMode: network,
      ReadonlyRootfs: true,
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges"],
      Init: true,
      RestartPolicy: { Name: "always" },
      PidsLimit: 512,
      Ulimits: [
        { Name: "nofile", Soft: 16_384, Hard: 16_384 },
        { Name: "nproc", Soft: 32_768, Hard: 32_768 },
      ],
      Tmpfs: { "/tmp": `rw,nosuid,nodev,mode=1777,size=${256 * MIB}` },
      Mounts: mounts,
      ...options,
    },
  };
}

interface Part {
  readonly command: readonly string[];
  readonly mounts: readonly object[];
  readonly network: string;
  readonly options?: object;
}

const PARTS: Readonly<Record<SystemPart, (wishes: SystemWishes) => Part>> = {
  gate: ({ names: { volumes, owner }, contract, socket, network }) => ({
    command: [
      "/exclave/gate.mjs",
      ...flags({
        engine: `${PLACES.engine}/${basename(socket)}`,
        owner,
        network,
        "agent-socket": `${PLACES.gate}/${SOCKETS.engine}`,
        "job-socket": `${PLACES.sockets}/${SOCKETS.engine}`,
        "token-key": `${PLACES.gate}/token.pub`,
        issuer: contract.registry.issuer,
        service: engineServiceOf(contract),
      }),
    ],
    mounts: [
      // The directory, not the socket: an engine that is started anew makes a new one in it.
      { Type: "bind", Source: dirname(socket), Target: PLACES.engine, ReadOnly: true },
      volume(volumes.gate, PLACES.gate, false),
      volume(volumes.sockets, PLACES.sockets, false),
    ],
    network: "none",
    // Where the machine labels files, a container may not speak to an engine's socket otherwise.
    options: { SecurityOpt: ["no-new-privileges", "label=disable"] },
  }),
  registry: ({ names: { volumes }, contract }) => ({
    command: [
      "/exclave/registry.mjs",
      ...flags({
        directory: `${PLACES.registry}/content`,
        socket: `${PLACES.sockets}/${SOCKETS.registry}`,
        "auth-keys": `${PLACES.registry}/token.pub`,
        issuer: contract.registry.issuer,
        service: contract.registry.service,
      }),
    ],
    mounts: [
      volume(volumes.registry, PLACES.registry, false),
      volume(volumes.sockets, PLACES.sockets, false),
    ],
    network: "none",
  }),
  agent: ({ names: { volumes }, network }) => ({
    command: ["/exclave/agent.mjs", "install", ...flags({ home: PLACES.home })],
    mounts: [
      volume(volumes.home, PLACES.home, false),
      volume(volumes.gate, PLACES.gate, true),
      volume(volumes.sockets, PLACES.sockets, true),
    ],
    network,
  }),
};

export function flags(values: Readonly<Record<string, string>>): string[] {
  return Object.entries(values).flatMap(([name, value]) => [`--${name}`, value]);
}

function engineServiceOf({ runtime }: SandboxContract): string {
  return runtime.type === "podman" ? (runtime.engineService ?? "") : "";
}

function volume(name: string, target: string, isReadOnly: boolean): object {
  return { Type: "volume", Source: name, Target: target, ReadOnly: isReadOnly };
}
