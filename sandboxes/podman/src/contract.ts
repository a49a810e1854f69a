// The contract of an install on an engine: what its agent finds in its home.

import { SandboxContract } from "@exclave/plugin-sdk";
import { type Names, PLACES, SOCKETS } from "./names.ts";

export interface ContractWishes {
  readonly install: { readonly id: string; readonly name: string };
  readonly runner: { readonly repository: string; readonly digest: string };
  readonly network: string;
  readonly userNamespace?: string | undefined;
  readonly allowExec: boolean;
}

export function contractOf(names: Names, wishes: ContractWishes): SandboxContract {
  const { install, runner, network, userNamespace, allowExec } = wishes;
  const { id } = install;
  return SandboxContract.parse({
    version: 1,
    kind: "podman",
    install,
    registry: {
      type: "embedded",
      // No address leads there: the registry listens on a socket alone.
      url: "http://registry.exclave.invalid",
      socket: `${PLACES.sockets}/${SOCKETS.registry}`,
      issuer: `exclave-install-${id}`,
      service: `exclave-registry-${id}`,
    },
    runtime: {
      type: "podman",
      socket: `${PLACES.gate}/${SOCKETS.engine}`,
      owner: names.owner,
      directory: `${PLACES.home}/runtime`,
      network,
      socketVolume: names.volumes.sockets,
      seesProcesses: false,
      engineService: `exclave-engine-${id}`,
      ...(userNamespace !== undefined && { userNamespace }),
    },
    debug: { exec: allowExec },
    runner,
  });
}
