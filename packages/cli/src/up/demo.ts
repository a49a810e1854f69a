// The demo: an app is released, an install created and brought to health, live on the screen. Run
// again it resumes: what is there already is not made twice.

import { join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createInstall, type InstallView, listChannels, listInstalls } from "@exclave/api";
import { AppName, ChannelName, InstallName } from "@exclave/core";
import { startRelease, waitForRelease } from "../commands/release/release.ts";
import { listAll } from "../connection/pages.ts";
import type { Display } from "../output/display.ts";
import type { Cli } from "../program/cli.ts";
import { judgeDeploy } from "../progress/install-progress.ts";
import { waitForInstall } from "../progress/wait-install.ts";
import type { Up } from "./run-up.ts";

const APP = AppName.parse("crm");
const CHANNEL = ChannelName.parse("stable");
const INSTALL = InstallName.parse("acme");
const INPUTS = { company: "Acme Corporation" };
const PATIENCE_MS = 600_000;

export interface DemoOptions {
  readonly app: string;
  readonly sandbox: string;
  readonly display: Display;
}

export async function runDemo(
  cli: Cli,
  { client }: Up,
  { app, sandbox, display }: DemoOptions,
): Promise<void> {
  const startedAt = cli.invocation.now();
  if (!(await hasRelease())) {
    const { id, version } = await startRelease(cli, client, app, {
      channel: CHANNEL,
      because: "the demo",
    });
    display.note(`release ${version} of ${APP} is being built`);
    await waitForRelease(cli, client, id, PATIENCE_MS);
  }
  if (!(await hasInstall())) {
    await client.call(createInstall, {
      body: {
        name: INSTALL,
        app: APP,
        channel: CHANNEL,
        sandbox,
        inputs: INPUTS,
      },
    });
    display.note(`install ${INSTALL} is created`);
  }
  const install = await waitForInstall(cli, client, {
    name: INSTALL,
    timeoutMs: PATIENCE_MS,
    judge: judgeDeploy,
    display,
  });
  await waitForPage(install);
  const shown = shortPath(cli.invocation.directory, app);
  const seconds = Math.round((cli.invocation.now() - startedAt) / 1_000);
  for (const line of farewell(install, seconds, shown)) display.note(line);

  /** After a restart the last known health is older than the programs. */
  async function waitForPage(view: InstallView): Promise<void> {
    const url = pageOf(view);
    if (url === undefined) return;
    for (let tries = 0; tries < 200; tries++) {
      const answer = await fetch(url, { signal: cli.invocation.signal }).catch(() => undefined);
      await answer?.body?.cancel();
      if (answer?.ok) return;
      await sleep(300, undefined, { signal: cli.invocation.signal });
    }
  }

  async function hasRelease(): Promise<boolean> {
    const channels = await listAll(client, listChannels, { app: APP });
    return channels.some(({ name, release }) => name === CHANNEL && release !== null);
  }

  async function hasInstall(): Promise<boolean> {
    const installs = await listAll(client, listInstalls);
    return installs.some(({ name }) => name === INSTALL);
  }
}

function pageOf({ components }: InstallView): string | undefined {
  const url = components.find(({ name }) => name === "web")?.outputs.url;
  return typeof url === "string" ? url : undefined;
}

/** As a person would type it. */
function shortPath(from: string, path: string): string {
  const short = relative(from, path);
  return short === "" || short.startsWith("..") ? path : short;
}

function farewell(install: InstallView, seconds: number, app: string): string[] {
  const url = pageOf(install) ?? "see `exclave install show acme`";
  return [
    "",
    `${install.name} is healthy after ${seconds} s. Open ${url}`,
    "",
    "Try, from a second shell in this directory:",
    "  npx exclave install show acme",
    "  npx exclave logs acme web",
    "  npx exclave exec acme api -- node --version",
    "  npx exclave job list",
    "  npx exclave audit verify",
    `Change a line, such as ACCENT in ${join(app, "web/page.mjs")}, then`,
    `  npx exclave release ${app} --channel stable`,
    "and reload the page: only what changed was built and deployed.",
    "",
  ];
}
