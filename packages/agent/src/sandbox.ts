// The sandbox an install agent lives in, from the contract its setup left: which registry is the
// install's own and how access to it is made, where jobs run.

import { createPrivateKey, randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Failure } from "@exclave/core";
import { type Access, mintToken } from "@exclave/oci";
import { z } from "zod";
import { readIfThere } from "./durable-file.ts";

/** What this agent needs of it; whatever else a sandbox says is for expressions. */
export const SandboxContract = z.looseObject({
  version: z.literal(1),
  registry: z.looseObject({
    url: z.url(),
    issuer: z.string().default("exclave"),
    service: z.string().default("exclave"),
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
export interface OwnRegistry {
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
  const { url, issuer, service } = sandbox.registry;
  return {
    url,
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
