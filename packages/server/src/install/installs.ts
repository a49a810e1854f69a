// What people ask of an install: to be there, to change, to go, to be forgotten, to show something.

import { join } from "node:path";
import type {
  createInstall as createCall,
  deployInstall as deployCall,
  runInInstall as runCall,
} from "@exclave/api";
import { advanceJob, ComponentName, ComponentType, Failure } from "@exclave/core";
import type { z } from "zod";
import { audit, type ServerContext } from "../context.ts";
import { issueJob } from "../issue-job.ts";
import { readyRelease } from "../release/channels.ts";
import { type ReadApp, releaseIndex } from "../release/release-loop.ts";
import type { InstallRow, JobRow } from "../store/rows.ts";
import { componentKey, type Readers, type Tables } from "../store/store.ts";
import { checkInputs, checkSecrets } from "./inputs.ts";

export async function createInstall(
  context: ServerContext,
  readApp: ReadApp,
  body: z.output<(typeof createCall)["body"]>,
  by: string,
): Promise<InstallRow> {
  const { name, app, channel, sandbox, inputs } = body;
  const install = await context.store.transaction(async (tx) => {
    if (RESERVED.has(name)) throw new Failure("invalid", `an install cannot be called ${name}`);
    const taken = await tx.installs.get(name);
    if (taken) throw new Failure("conflict", takenText(taken));
    await checkKnown(tx, app, sandbox);
    const pointed = await tx.channels.of(app, channel);
    const release = pointed?.release ? await tx.releases.get(pointed.release) : undefined;
    if (release) {
      const config = readApp(release);
      checkInputs(config, inputs);
      checkSecrets(config);
    }
    const row: InstallRow = {
      name,
      app,
      channel,
      pinnedRelease: null,
      sandbox,
      directory: body.directory ?? join(context.installsDirectory, name),
      inputs,
      mode: "present",
      sandboxState: "absent",
      sandboxFailure: null,
      allowDestroy: [],
      synced: [],
      runner: null,
      syncFailure: null,
      requestedBy: by,
      revision: 0,
      createdAt: context.now(),
    };
    await tx.installs.put(row);
    await audit(tx, context, {
      actor: by,
      action: "install.created",
      subject: name,
      details: { app, channel, sandbox, inputs },
    });
    return row;
  });
  context.wake.install(name);
  return install;
}

function takenText({ name, sandboxState }: InstallRow): string {
  const taken = `there is an install ${name} already`;
  if (sandboxState !== "destroyed") return taken;
  return `${taken}; it is destroyed, and \`exclave install forget ${name}\` frees its name`;
}

/** Audiences that are not installs. */
const RESERVED: ReadonlySet<string> = new Set(["build", "setup", "server"]);

async function checkKnown(tx: Tables, app: string, sandbox: string): Promise<void> {
  const releases = await tx.releases.ofApp(app, { limit: 1 });
  if (releases.items.length === 0) {
    const known = new Set((await tx.releases.all()).map((release) => release.app));
    const have = known.size > 0 ? `; there are ${[...known].join(", ")}` : "; release one first";
    throw new Failure("not_found", `there is no app ${app} here${have}`);
  }
  const sandboxes = (await tx.images.ofKind("sandbox")).map(({ name }) => name);
  if (sandboxes.length > 0 && !sandboxes.includes(sandbox)) {
    const have = sandboxes.join(", ");
    throw new Failure("invalid", `there is no sandbox ${sandbox} here; there are ${have}`);
  }
}

export async function deployInstall(
  context: ServerContext,
  readApp: ReadApp,
  { name, body, by }: { name: string; body: z.output<(typeof deployCall)["body"]>; by: string },
): Promise<InstallRow> {
  const install = await context.store.transaction(async (tx) => {
    const before = await knownInstall(tx, name);
    if (before.mode === "destroyed") throw new Failure("conflict", `${name} is to be destroyed`);
    const release = body.release ? await readyRelease(tx, before.app, body.release) : undefined;
    const channel = body.channel ?? before.channel;
    const follows = body.channel === undefined ? before.pinnedRelease : null;
    const after: InstallRow = {
      ...before,
      channel,
      pinnedRelease: release?.id ?? follows,
      inputs: { ...before.inputs, ...body.inputs },
      allowDestroy: [...new Set([...before.allowDestroy, ...body.allowDestroy])],
      ...(body.retry ? { syncFailure: null, sandboxFailure: null } : {}),
      requestedBy: by,
      revision: before.revision + 1,
    };
    const pointed = (await tx.channels.of(before.app, channel))?.release ?? null;
    const wanted = release ?? (await releaseOf(tx, after.pinnedRelease ?? pointed));
    if (body.inputs && wanted) checkInputs(readApp(wanted), after.inputs);
    await checkAllowed(tx, name, body.allowDestroy);
    await tx.installs.put(after);
    if (body.retry) await clearFailures(tx, name);
    await audit(tx, context, {
      actor: by,
      action: "install.deploy_asked",
      subject: name,
      details: { ...body },
    });
    return after;
  });
  context.wake.install(name);
  return install;
}

async function releaseOf(tx: Tables, id: string | null) {
  return id === null ? undefined : tx.releases.get(id);
}

async function checkAllowed(tx: Tables, install: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    if (await tx.components.get(componentKey(install, name))) continue;
    throw new Failure("not_found", `${install} has no component ${name} that could be destroyed`);
  }
}

async function clearFailures(tx: Tables, install: string): Promise<void> {
  for (const component of await tx.components.ofInstall(install)) {
    if (component.lastFailure) await tx.components.put({ ...component, lastFailure: null });
  }
}

export async function destroyInstall(
  context: ServerContext,
  { name, because, by }: { name: string; because: string; by: string },
): Promise<InstallRow> {
  const install = await context.store.transaction(async (tx) => {
    const before = await knownInstall(tx, name);
    const after: InstallRow = {
      ...before,
      mode: "destroyed",
      syncFailure: null,
      sandboxFailure: null,
      requestedBy: by,
      revision: before.revision + 1,
    };
    await tx.installs.put(after);
    await clearFailures(tx, name);
    await audit(tx, context, {
      actor: by,
      action: "install.destroy_asked",
      subject: name,
      details: { because },
    });
    return after;
  });
  context.wake.install(name);
  return install;
}

export async function forgetInstall(
  context: ServerContext,
  { name, force, by }: { name: string; force: boolean; by: string },
): Promise<{ forgotten: string; note: string }> {
  return context.store.transaction(async (tx) => {
    const install = await knownInstall(tx, name);
    const isGone = install.sandboxState === "destroyed";
    if (!isGone && !force) {
      throw new Failure(
        "conflict",
        `${name} is not destroyed; destroy it first, or forget it with force and leave everything of it running`,
      );
    }
    const components = await tx.components.ofInstall(name);
    for (const component of components)
      await tx.components.remove(componentKey(name, component.name));
    for (const job of await tx.jobs.open(name)) await abandon(tx, context, job);
    await tx.outbox.clear(name);
    const agent = await tx.agents.byAudience(name);
    if (agent) await tx.agents.remove(agent.id);
    await tx.installs.remove(name);
    const note = isGone
      ? "its record stays in the audit chain"
      : "nothing in the customer's account was touched: whatever ran there still runs";
    await audit(tx, context, {
      actor: by,
      action: "install.forgotten",
      subject: name,
      details: { force, note, components: components.map((component) => component.name) },
    });
    return { forgotten: name, note };
  });
}

async function abandon(tx: Tables, { now }: ServerContext, job: JobRow): Promise<void> {
  const because = "its install was forgotten";
  const state = advanceJob(job.state, { type: "abandon", at: now(), because });
  if (state) await tx.jobs.put({ ...job, state, endedAt: now() });
}

/** A log request, a debug command or a status, as a job of the install's agent. */
export async function runInInstall(
  context: ServerContext,
  input: { name: string; component: string; body: z.output<(typeof runCall)["body"]>; by: string },
): Promise<JobRow> {
  const { name, component, body, by } = input;
  const job = await context.store.transaction(async (tx) => {
    const install = await knownInstall(tx, name);
    const deployed = (await tx.components.get(componentKey(name, component)))?.deployed;
    if (!deployed) throw new Failure("conflict", `${component} is not deployed in ${name}`);
    const effect = deployed.effects[body.operation];
    if (!effect) {
      const { type } = deployed;
      throw new Failure(
        "invalid",
        `${component} is a ${type}, and ${type} has no ${body.operation}`,
      );
    }
    if (!context.presence.isOnline(name)) {
      throw new Failure("unavailable", `the agent of ${name} is not connected`);
    }
    const { type, plugin, artifact, config, inputs, generatedSecrets } = deployed;
    const release = await tx.releases.get(deployed.release);
    const index = release && releaseIndex(release);
    return issueJob(tx, context, {
      audience: name,
      install: name,
      app: install.app,
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
      about: { kind: "request" },
      inputs,
      generatedSecrets,
      ...deadlineOf(body),
      because: `${by} asked for ${body.operation}`,
      requestedBy: by,
    });
  });
  context.wake.outbox(name);
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

export async function knownInstall(
  { installs }: Pick<Readers, "installs">,
  name: string,
): Promise<InstallRow> {
  const install = await installs.get(name);
  if (!install) throw new Failure("not_found", `there is no install ${name}`);
  return install;
}
