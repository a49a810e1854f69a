// What people ask of an install: to be there, to change, to go, to be forgotten, to show something.

import type { deployInstall as deployCall } from "@exclave/api";
import { directionTo, Failure, InstallId } from "@exclave/core";
import type { z } from "zod";
import { audit, type ServerContext } from "../context.ts";
import { abandonJob } from "../job/abandon-job.ts";
import { readyRelease } from "../release/channels.ts";
import { type ReadApp } from "../release/release-loop.ts";
import type { InstallRow, ReleaseRow } from "../store/rows.ts";
import { componentKey, type Tables } from "../store/store.ts";
import { checkInputs } from "./inputs.ts";
import { knownInstall } from "./known-install.ts";

export async function deployInstall(
  context: ServerContext,
  readApp: ReadApp,
  { ref, body, by }: { ref: string; body: z.output<(typeof deployCall)["body"]>; by: string },
): Promise<InstallRow> {
  const install = await context.store.transaction(async (tx) => {
    const before = await knownInstall(tx, ref);
    const { id, name } = before;
    if (before.mode === "destroyed") throw new Failure("conflict", `${name} is to be destroyed`);
    const release = body.release ? await readyRelease(tx, appOf(before), body.release) : undefined;
    if (release) checkRollback(before, release);
    const channel = body.channel ?? before.channel;
    const follows = body.channel === undefined ? before.pinnedRelease : null;
    const after: InstallRow = {
      ...before,
      channel,
      pinnedRelease: release?.id ?? follows,
      // Somebody said which release it shall be: that settles it.
      unknownRelease: release ? null : before.unknownRelease,
      inputs: { ...before.inputs, ...body.inputs },
      allowDestroy: [...new Set([...before.allowDestroy, ...body.allowDestroy])],
      ...(body.retry ? { syncFailure: null, sandboxFailure: null } : {}),
      requestedBy: by,
      trace: context.traces.current(),
      revision: before.revision + 1,
    };
    const pointed = (await tx.channels.of(before.app, channel))?.release ?? null;
    const wanted = release ?? (await releaseOf(tx, after.pinnedRelease ?? pointed));
    if (body.inputs && wanted) checkInputs(readApp(wanted), after.inputs);
    await checkAllowed(tx, before, body.allowDestroy);
    await tx.installs.put(after);
    if (body.retry) await clearFailures(tx, id);
    for (const component of body.components) await askForApply(tx, before, component, by);
    await audit(tx, context, {
      actor: by,
      action: "install.deploy_asked",
      subject: id,
      details: { name, ...body },
    });
    return after;
  });
  context.wake.install(install.id);
  return install;
}

function appOf({ app: id, appName: name }: InstallRow) {
  return { id, name };
}

/** The agent would refuse it: who asks is told at once. */
function checkRollback({ name, releaseFloor }: InstallRow, release: ReleaseRow): void {
  const { number, version: versionName } = release;
  const direction = directionTo({ number, versionName }, releaseFloor ?? undefined);
  if (direction.kind !== "refused") return;
  const how = "`rollback.releases` in exclave.yaml says how far back a release lets an install go";
  throw new Failure("downgrade", `${name} cannot go back: ${direction.because}; ${how}`);
}

async function releaseOf(tx: Tables, id: string | null) {
  return id === null ? undefined : tx.releases.get(id);
}

async function checkAllowed(
  tx: Tables,
  install: InstallRow,
  names: readonly string[],
): Promise<void> {
  for (const name of names) {
    if (await tx.components.get(componentKey(install.id, name))) continue;
    const message = `${install.name} has no component ${name} that could be destroyed`;
    throw new Failure("not_found", message);
  }
}

async function clearFailures(tx: Tables, install: InstallId): Promise<void> {
  for (const component of await tx.components.ofInstall(install)) {
    if (!component.lastFailure && !component.repairs) continue;
    await tx.components.put({ ...component, lastFailure: null, repairs: null });
  }
}

async function askForApply(
  tx: Tables,
  install: InstallRow,
  name: string,
  by: string,
): Promise<void> {
  const row = await tx.components.get(componentKey(install.id, name));
  if (!row) throw new Failure("not_found", `${install.name} has no component ${name} yet`);
  await tx.components.put({ ...row, applyAsked: by, lastFailure: null, repairs: null });
}

/** Runs setup once more: everything in the sandbox stays, its programs come up, its agent joins anew. */
export async function setupInstall(
  context: ServerContext,
  { ref, because, by }: { ref: string; because: string; by: string },
): Promise<InstallRow> {
  const install = await context.store.transaction(async (tx) => {
    const before = await knownInstall(tx, ref);
    // One that is to be destroyed needs its agent for that, and may have lost it.
    if (before.mode === "destroyed" && !hasSandbox(before)) {
      throw new Failure("conflict", `${before.name} has no sandbox any more`);
    }
    const after: InstallRow = {
      ...before,
      setupWanted: `${by} asked for it: ${because}`,
      sandboxFailure: null,
      sandboxLook: null,
      requestedBy: by,
      trace: context.traces.current(),
      revision: before.revision + 1,
    };
    await tx.installs.put(after);
    await audit(tx, context, {
      actor: by,
      action: "install.setup_asked",
      subject: before.id,
      details: { name: before.name, because },
    });
    return after;
  });
  context.wake.install(install.id);
  return install;
}

function hasSandbox({ sandboxState }: InstallRow): boolean {
  return sandboxState === "present" || sandboxState === "attempted";
}

export async function destroyInstall(
  context: ServerContext,
  { ref, because, by }: { ref: string; because: string; by: string },
): Promise<InstallRow> {
  const install = await context.store.transaction(async (tx) => {
    const before = await knownInstall(tx, ref);
    const { id, name } = before;
    const after: InstallRow = {
      ...before,
      mode: "destroyed",
      syncFailure: null,
      sandboxFailure: null,
      requestedBy: by,
      trace: context.traces.current(),
      revision: before.revision + 1,
    };
    await tx.installs.put(after);
    await clearFailures(tx, id);
    await audit(tx, context, {
      actor: by,
      action: "install.destroy_asked",
      subject: id,
      details: { name, because },
    });
    return after;
  });
  context.wake.install(install.id);
  return install;
}

export async function forgetInstall(
  context: ServerContext,
  { ref, force, by }: { ref: string; force: boolean; by: string },
): Promise<{ forgotten: string; id: string; note: string }> {
  return context.store.transaction(async (tx) => {
    const install = await knownInstall(tx, ref);
    const { id, name } = install;
    const isGone = install.sandboxState === "destroyed";
    if (!isGone && !force) {
      throw new Failure(
        "conflict",
        `${name} is not destroyed; destroy it first, or forget it with force and leave everything of it running`,
      );
    }
    const components = await tx.components.ofInstall(id);
    for (const component of components) {
      await tx.components.remove(componentKey(id, component.name));
    }
    const forgotten = "its install was forgotten";
    for (const job of await tx.jobs.openOfInstall(id)) {
      await abandonJob(tx, context, job, forgotten);
    }
    await tx.outbox.clear(id);
    const agent = await tx.agents.byAudience(id);
    if (agent) {
      await tx.agents.remove(agent.id);
      await tx.agentCheckpoints.remove(agent.id);
    }
    await tx.shownInstalls.remove(id);
    await tx.installs.remove(id);
    const note = isGone
      ? "its record stays in the audit chain"
      : "nothing in the customer's account was touched: whatever ran there still runs";
    await audit(tx, context, {
      actor: by,
      action: "install.forgotten",
      subject: id,
      details: { name, force, note, components: components.map((component) => component.name) },
    });
    return { forgotten: name, id, note };
  });
}
