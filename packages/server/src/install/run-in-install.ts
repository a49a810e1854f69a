// A log that is read or a command that is run in an install, because somebody asked for it.

import type { runInInstall as runCall } from "@exclave/api";
import { ComponentName, ComponentType, Failure } from "@exclave/core";
import type { z } from "zod";
import { type ServerContext } from "../context.ts";
import { issueJob } from "../job/issue-job.ts";
import { releaseIndex } from "../release/release-loop.ts";
import type { JobRow } from "../store/rows.ts";
import { componentKey } from "../store/store.ts";
import { knownInstall } from "./known-install.ts";

/** A log request, a debug command or a status, as a job of the install's agent. */
export async function runInInstall(
  context: ServerContext,
  input: { ref: string; component: string; body: z.output<(typeof runCall)["body"]>; by: string },
): Promise<JobRow> {
  const { ref, component, body, by } = input;
  const job = await context.store.transaction(async (tx) => {
    const install = await knownInstall(tx, ref);
    const { id, name } = install;
    const deployed = (await tx.components.get(componentKey(id, component)))?.deployed;
    if (!deployed) throw new Failure("conflict", `${component} is not deployed in ${name}`);
    const effect = deployed.effects[body.operation];
    if (!effect) {
      const { type } = deployed;
      throw new Failure(
        "invalid",
        `${component} is a ${type}, and ${type} has no ${body.operation}`,
      );
    }
    if (!context.presence.isOnline(id)) {
      throw new Failure("unavailable", `the agent of ${name} is not connected`);
    }
    const { type, plugin, artifact, config, inputs, generatedSecrets } = deployed;
    const release = await tx.releases.get(deployed.release);
    const index = release && releaseIndex(release);
    return issueJob(tx, context, {
      audience: id,
      install,
      release: deployed.release,
      step: {
        operation: body.operation,
        plugin,
        component: ComponentName.parse(component),
        type: ComponentType.parse(type),
        ...(artifact ? { artifact } : {}),
        config,
        parameters: parametersOf(body),
        effect,
        materials: [],
        releases: index ? [index] : [],
      },
      purpose: { kind: "request" },
      inputs,
      generatedSecrets,
      ...deadlineOf(body),
      because: `${by} asked for ${body.operation}`,
      requestedBy: by,
      trace: context.traces.current(),
    });
  });
  context.wake.outbox(job.audience);
  return job;
}

type RunBody = z.output<(typeof runCall)["body"]>;

function parametersOf(body: RunBody): Record<string, unknown> {
  const { operation: _, ...parameters } = body;
  return parameters;
}

function deadlineOf(body: RunBody): { deadlineMs?: number } {
  if (body.operation === "exec") return { deadlineMs: (body.timeoutSeconds + 30) * 1_000 };
  if (body.operation === "status") return {};
  const seconds = body.seconds ?? (body.follow ? 3_600 : 60);
  return { deadlineMs: seconds * 1_000 };
}
