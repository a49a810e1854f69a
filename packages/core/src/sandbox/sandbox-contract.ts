// What a sandbox says about itself: the one document by which an install's agent knows where it
// lives, that expressions see as `sandbox`, and that whoever works on an install's home reads. It holds
// no secret. Written by setup; the customer may change what is the customer's to decide.

import { z } from "zod";
import { InstallId, InstallName } from "../ids.ts";
import { ArtifactRef } from "../manifest/manifest.ts";
import { RepositoryName } from "../repositories.ts";
import { SandboxRules } from "./sandbox-rules.ts";
import { SandboxRuntime } from "./sandbox-runtime.ts";

const RepositoryPrefix = z.union([z.literal(""), RepositoryName]);
const Place = z.looseObject({ directory: z.string() });

/** Loose: what a kind of sandbox says beyond this is for expressions. */
export const SandboxContract = z.looseObject({
  version: z.literal(1),
  /** Which sandbox made it. */
  kind: z.string(),
  /** Whose it is. The name is for people to read. */
  install: z.object({ id: InstallId, name: InstallName }),
  registry: z.looseObject({
    type: z.string().default("embedded"),
    url: z.url(),
    /** In PEM: who vouches for it, where it has TLS by an authority of its own. */
    ca: z.string().optional(),
    /** A unix socket that leads to it from where the agent runs, where it listens on no port. */
    socket: z.string().optional(),
    /** The two names a token for this registry carries: who made it, and for whom. */
    issuer: z.string(),
    service: z.string(),
    /** Before every repository of this install, on a registry it shares with others. */
    repository: RepositoryPrefix.default(""),
    /** Prefixes of the others whose content it may mount. */
    mountFrom: z.array(RepositoryPrefix).default([]),
  }),
  /** Where jobs run. */
  runtime: SandboxRuntime,
  /** Where components keep what stays between jobs. */
  state: Place.optional(),
  /** Where long-running programs leave word of themselves. */
  run: Place.optional(),
  /** The identity each class of job runs as, where the runtime has such a thing. */
  roles: z.record(z.string(), z.string()).default({}),
  /** The runner that setup put into the registry: the first sync is run by it. */
  runner: ArtifactRef.optional(),
  ...SandboxRules.shape,
});
export type SandboxContract = z.infer<typeof SandboxContract>;

/** Undefined when the text is no contract. */
export function parseSandboxContract(text: string): SandboxContract | undefined {
  try {
    return SandboxContract.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
