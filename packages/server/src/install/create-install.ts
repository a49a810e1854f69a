// A new install: whose app it is, what it was given, and whether it can ever be set up.

import type { createInstall as createCall } from "@exclave/api";
import { checkJson, Failure, InstallId } from "@exclave/core";
import type { z } from "zod";
import { audit, type ServerContext } from "../context.ts";
import { newInstallId } from "../identifiers.ts";
import { knownApp } from "../release/apps.ts";
import { type ReadApp } from "../release/release-loop.ts";
import type { InstallRow } from "../store/rows.ts";
import { type Tables } from "../store/store.ts";
import { checkInputs, checkSecrets } from "./inputs.ts";

export async function createInstall(
  context: ServerContext,
  readApp: ReadApp,
  body: z.output<(typeof createCall)["body"]>,
  by: string,
): Promise<InstallRow> {
  const { name, channel, sandbox, sandboxConfig, inputs } = body;
  const install = await context.store.transaction(async (tx) => {
    if (isReserved(name)) throw new Failure("invalid", `an install cannot be called ${name}`);
    const taken = await tx.installs.byName(name);
    if (taken) throw new Failure("conflict", takenText(taken));
    const app = await knownApp(tx, body.app);
    await checkSandbox(tx, sandbox, sandboxConfig);
    const pointed = await tx.channels.of(app.id, channel);
    const release = pointed?.release ? await tx.releases.get(pointed.release) : undefined;
    if (release) {
      const config = readApp(release);
      checkInputs(config, inputs);
      checkSecrets(config);
    }
    const row: InstallRow = {
      id: newInstallId(),
      name,
      app: app.id,
      appName: app.name,
      channel,
      pinnedRelease: null,
      sandbox,
      sandboxConfig,
      inputs,
      mode: "present",
      sandboxState: "absent",
      sandboxFailure: null,
      setupWanted: null,
      setUpAt: null,
      sandboxLook: null,
      allowDestroy: [],
      synced: [],
      runner: null,
      syncFailure: null,
      unknownRelease: null,
      setUpRelease: null,
      releaseFloor: null,
      requestedBy: by,
      trace: context.traces.current(),
      revision: 0,
      createdAt: context.now(),
    };
    await tx.installs.put(row);
    await audit(tx, context, {
      actor: by,
      action: "install.created",
      subject: row.id,
      details: { name, app: app.id, appName: app.name, channel, sandbox, sandboxConfig, inputs },
    });
    return row;
  });
  context.wake.install(install.id);
  return install;
}

function takenText({ name, sandboxState }: InstallRow): string {
  const taken = `there is an install ${name} already`;
  if (sandboxState !== "destroyed") return taken;
  return `${taken}; it is destroyed, and \`exclave install forget ${name}\` frees its name`;
}

/** Audiences that are not installs, and what would be taken for the id of one. */
function isReserved(name: string): boolean {
  return ["build", "setup", "server"].includes(name) || InstallId.safeParse(name).success;
}

async function checkSandbox(
  tx: Tables,
  sandbox: string,
  config: Readonly<Record<string, unknown>>,
): Promise<void> {
  const sandboxes = (await tx.images.ofKind("sandbox")).map(({ name }) => name);
  if (sandboxes.length > 0 && !sandboxes.includes(sandbox)) {
    const have = sandboxes.join(", ");
    throw new Failure("invalid", `there is no sandbox ${sandbox} here; there are ${have}`);
  }
  const image = await tx.images.get(`sandbox/${sandbox}`);
  const [problem] = image?.descriptor ? checkJson(image.descriptor.configSchema, config) : [];
  if (problem) {
    const place = ["sandboxConfig", ...problem.path].join(".");
    throw new Failure("invalid", `${place}: ${problem.message}`);
  }
}
