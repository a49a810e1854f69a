// The sandbox an install agent lives in, from the contract its setup left: which registry is the
// install's own and how access to it is made, where jobs run.

import { createPrivateKey, randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Failure } from "@exclave/core";
import { type Access, mintToken, RepositoryName } from "@exclave/oci";
import { z } from "zod";
import { readIfThere } from "./durable-file.ts";
import type { RegistryShare } from "./own-repository.ts";

const Prefix = z.union([z.literal(""), RepositoryName]);

/** What this agent needs of it; whatever else a sandbox says is for expressions. */
export const SandboxContract = z.looseObject({
  version: z.literal(1),
  registry: z.looseObject({
    url: z.url(),
    issuer: z.string().default("exclave"),
    service: z.string().default("exclave"),
    /** Before every repository of this install, on a registry it shares with others. */
    repository: Prefix.default(""),
    /** Prefixes of the others whose content it may mount. */
    mountFrom: z.array(Prefix).default([]),
  }),
  runtime: z.looseObject({ type: z.literal("process"), directory: z.string() }),
  run: z.looseObject({ directory: z.string() }).optional(),
});
export type SandboxContract = z.infer<typeof SandboxContract>;

export async function readSandbox(path: string): Promise<SandboxContract> {
  const text = await readIfThere(path);
  if (text === undefined) throw new Failure("not_found", `there is no sandbox: ${path} is missing`);
  try {
    return SandboxContract.parse(JSON.parse(text));
  } catch (cause) {
    throw new Failure("invalid", `${path} is not a sandbox's contract`, { cause });
  }
}

/** The install's own registry: its address, and tokens for it that say how far they go. */
export interface OwnRegistry extends RegistryShare {
  readonly url: string;
  token(access: readonly Access[]): Promise<string>;
}

const TOKEN_TTL_MS = 3_600_000;

export interface OwnRegistryOptions {
  readonly sandbox: SandboxContract;
  readonly keyPath: string;
  readonly install: string;
  readonly now: () => number;
}

export async function openOwnRegistry(options: OwnRegistryOptions): Promise<OwnRegistry> {
  const { sandbox, keyPath, install, now } = options;
  const privateKey = createPrivateKey(await readFile(keyPath, "utf8"));
  const { url, issuer, service, repository, mountFrom } = sandbox.registry;
  return {
    url,
    repository,
    mountFrom,
    token: (access) =>
      mintToken({
        privateKey,
        issuer,
        audience: service,
        subject: install,
        access,
        ttlMs: TOKEN_TTL_MS,
        now: now(),
        jti: randomUUID(),
      }),
  };
}
