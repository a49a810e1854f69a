// Starts a job from an image that is whole: what the install's registry has lost is put back or named.

import { type ArtifactRef, Failure, type ManifestStep } from "@exclave/core";
import { isContentLost } from "@exclave/oci";
import type { JobRuntime, JobSpec } from "@exclave/runtime";
import type { Log } from "../log.ts";
import { ownPlace } from "../sandbox/own-repository.ts";
import type { Workplace } from "./prepare-job.ts";

export async function startWhole(
  { runtime, place, log }: StartWholeOptions,
  step: ManifestStep,
  spec: JobSpec,
): Promise<void> {
  const { own } = place;
  if (!own) return runtime.start(spec);
  const plugin = ownPlace(own.registry, step.plugin);
  const isSync = step.operation === "sync";
  try {
    await runtime.start(spec);
  } catch (cause) {
    if (!isContentLost(cause)) throw cause;
    if (!isSync || !(await own.runner.restore(plugin))) throw notWhole(plugin, cause);
    log.warn("the runner was damaged in the install's registry and is put back", { cause });
    // One that is damaged after all is retried: the next sync may find it put back whole.
    await runtime.start(spec).catch((reason: unknown) => {
      throw isContentLost(reason) ? notWhole(plugin, reason) : reason;
    });
  }
  if (!isSync) return;
  own.runner.pin(plugin).catch((reason: unknown) => {
    log.warn("no copy of the runner can be kept outside the registry", { reason });
  });
}

export interface StartWholeOptions {
  readonly runtime: JobRuntime;
  readonly place: Workplace;
  readonly log: Log;
}

function notWhole({ repository, digest }: ArtifactRef, cause: Failure): Failure {
  const message = `${repository}@${digest} is not whole in the install's registry: ${cause.message}`;
  return new Failure("not_synced", message, { cause });
}
