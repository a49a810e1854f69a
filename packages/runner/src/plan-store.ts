// A plan is kept in the install, by the digest of its bytes. What is applied later is exactly what
// was consented to, or nothing.

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Digest, Failure } from "@exclave/core";
import { writeDurably } from "@exclave/machine";

export async function keepPlan(stateDirectory: string, file: string): Promise<Digest> {
  const bytes = await readFile(file);
  const digest = digestOf(bytes);
  await writeDurably(planPath(stateDirectory, digest), bytes);
  return digest;
}

/** The path of the plan with this digest, its bytes checked. */
export async function openPlan(stateDirectory: string, wanted: unknown): Promise<string> {
  const digest = Digest.safeParse(wanted);
  if (!digest.success) throw new Failure("invalid", "the plan to apply is not named by a digest");

  const path = planPath(stateDirectory, digest.data);
  const bytes = await readFile(path).catch((cause) => {
    throw new Failure("conflict", `the plan ${digest.data} is not in this install; plan again`, {
      cause,
    });
  });
  if (digestOf(bytes) !== digest.data) {
    throw new Failure("conflict", `the plan ${digest.data} was altered; plan again`);
  }
  return path;
}

function planPath(stateDirectory: string, digest: Digest): string {
  return join(stateDirectory, "plans", digest.replace(/^sha\d+:/, ""));
}

function digestOf(bytes: Uint8Array): Digest {
  return Digest.parse(`sha256:${createHash("sha256").update(bytes).digest("hex")}`);
}
