// The sandbox an install agent lives in, from the contract its setup left: which registry is the
// install's own and how access to it is made, where jobs run.

import { createPrivateKey, type KeyObject, randomUUID } from "node:crypto";
import { Failure, parseSandboxContract, type SandboxContract } from "@exclave/core";
import { readIfThere } from "@exclave/machine";
import { type Access, type MintToken, mintToken } from "@exclave/oci";
import type { RegistryShare } from "./own-repository.ts";

export async function readSandbox(path: string): Promise<SandboxContract> {
  const text = await readIfThere(path);
  if (text === undefined) throw new Failure("not_found", `there is no sandbox: ${path} is missing`);
  const contract = parseSandboxContract(text);
  if (contract) return contract;
  throw new Failure("invalid", `${path} is not a sandbox's contract`);
}

/** The install's own registry: its address, and tokens for it that say how far they go. */
export interface OwnRegistry extends RegistryShare {
  readonly url: string;
  /** In PEM: who vouches for it; the machine's roots unless given. */
  readonly ca?: string | undefined;
  /** Leads to it where it listens on no port. */
  readonly socket?: string | undefined;
  token(access: readonly Access[]): Promise<string>;
  /** For another service of the sandbox: who the bearer is there. */
  tokenFor(service: string, subject: string): Promise<string>;
}

const TOKEN_TTL_MS = 3_600_000;

export interface OwnRegistryOptions {
  readonly sandbox: SandboxContract;
  readonly keyPath: string;
  /** By id: whom its tokens are for. */
  readonly install: string;
  /** What people call the install. */
  readonly name: string;
  readonly now: () => number;
}

export async function openOwnRegistry(options: OwnRegistryOptions): Promise<OwnRegistry> {
  const { sandbox, keyPath, install, name, now } = options;
  const { url, ca, socket, issuer, service, repository, mountFrom } = sandbox.registry;
  return {
    url,
    ca,
    socket,
    repository,
    mountFrom,
    token: (access) => mint({ audience: service, subject: install, access }),
    tokenFor: (audience, subject) => mint({ audience, subject, access: [] }),
  };

  async function mint(claims: Pick<MintToken, "audience" | "subject" | "access">): Promise<string> {
    const privateKey = await readTokenKey(keyPath, name);
    const times = { ttlMs: TOKEN_TTL_MS, now: now(), jti: randomUUID() };
    return mintToken({ privateKey, issuer, ...claims, ...times });
  }
}

/** Read when it is used: an agent without it still says so, and works again once setup has made one. */
async function readTokenKey(path: string, install: string): Promise<KeyObject> {
  const text = await readIfThere(path);
  try {
    if (text !== undefined) return createPrivateKey(text);
  } catch {
    // Said below: a key that cannot be read is as good as none.
  }
  const what = text === undefined ? "is missing" : "holds no key";
  const remedy = `whoever keeps the registry of ${install} up makes a new one`;
  throw new Failure("unavailable", `the key of the registry, ${path}, ${what}; ${remedy}`);
}
