// The contract of a local install: made once, when its directory is claimed.

import { choosePort, SandboxContract, writeDurably } from "@exclave/plugin-sdk";
import type { Home } from "./home.ts";

export async function newContract(
  install: SandboxContract["install"],
  home: Home,
): Promise<SandboxContract> {
  return SandboxContract.parse({
    version: 1,
    kind: "local",
    install,
    registry: {
      type: "embedded",
      // Chosen once: artifacts are named by it for as long as the install lives.
      url: `http://127.0.0.1:${await choosePort()}`,
      issuer: `exclave-install-${install.id}`,
      service: `exclave-registry-${install.id}`,
    },
    runtime: { type: "process", directory: home.runtime },
    state: { directory: home.state },
    run: { directory: home.run },
    // Whoever sets a local install up can read all of it anyway.
    debug: { exec: true },
  });
}

export function writeContract(home: Home, contract: SandboxContract): Promise<void> {
  return writeDurably(home.contract, JSON.stringify(contract, undefined, 2));
}
