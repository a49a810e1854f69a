// A server's directory with many installs that are deployed and at rest. The releases are made by the real line, with
// an agent that builds at once; the installs are put as rows, since ten thousand setups are not what is measured.

import { generateKeyPairSync } from "node:crypto";
import { join } from "node:path";
import { createClient } from "@exclave/api";
import {
  type AppConfig,
  type ComponentStep,
  deployedBy,
  InstallName,
  Instant,
} from "@exclave/core";
import { newAgentId, newInstallId, newSecret } from "../../identifiers.ts";
import { emptyComponent } from "../../install/empty-component.ts";
import type { InstallFacts } from "../../install/gather-install.ts";
import { decideInstall } from "../../install/install-decision.ts";
import { createAppReader } from "../../release/app-of-release.ts";
import { materialsOf } from "../../release/plan-release.ts";
import { releaseIndex } from "../../release/release-loop.ts";
import { tokenRow } from "../../rest/tokens.ts";
import type { ComponentRow, InstallRow, ReleaseRow } from "../../store/rows.ts";
import { openSqliteStore } from "../../store/sqlite/sqlite-store.ts";
import type { Tables } from "../../store/store.ts";
import { agentRow, installRow } from "../rows.ts";
import { buildAgent, release } from "../scripted-vendor.ts";
import { endProcess, startServerProcess } from "../server-process.ts";

export interface FleetMember {
  readonly install: string;
  readonly agent: string;
  /** PKCS #8, PEM. */
  readonly privateKey: string;
}

export interface Fleet {
  readonly members: readonly FleetMember[];
  /** Secrets of people who may ask for jobs: one may ask for so many a second, so there are several. */
  readonly tokens: readonly string[];
  /** Releases by version: all installs have the first, the channel can be pointed at the second. */
  readonly releases: Readonly<Record<string, string>>;
}

export const APP = "crm";
export const CHANNEL = "stable";
export const COMPONENT = "api";
const CONFIG = `app: ${APP}\ncomponents:\n  - { name: ${COMPONENT}, type: command, source: ./api }\n`;
const TOKENS = 32;
const ROWS_A_TRANSACTION = 500;

export async function seedFleet(data: string, installs: number): Promise<Fleet> {
  await makeReleases(data);
  const store = openSqliteStore(join(data, "exclave.db"));
  try {
    const releases = await store.read.releases.all();
    const first = releases.find(({ version }) => version === "1");
    if (!first) throw new Error("there is no release to seed");
    const app = createAppReader()(first);
    const members: FleetMember[] = [];
    for (let from = 0; from < installs; from += ROWS_A_TRANSACTION) {
      const count = Math.min(ROWS_A_TRANSACTION, installs - from);
      await store.transaction(async (tx) => {
        for (let n = from; n < from + count; n++) members.push(await putMember(tx, first, app, n));
      });
    }
    const tokens = Array.from({ length: TOKENS }, () => `exclave_${newSecret(32)}`);
    await store.transaction(async (tx) => {
      for (const [n, secret] of tokens.entries()) {
        const row = tokenRow({ name: `team-${n}`, role: "admin" }, secret, now());
        await tx.tokens.put(row);
      }
    });
    return {
      members,
      tokens,
      releases: Object.fromEntries(releases.map(({ version, id }) => [version, id])),
    };
  } finally {
    await store.close();
  }
}

async function makeReleases(data: string): Promise<void> {
  const { child, url, token } = await startServerProcess(data);
  try {
    const server = { data, url, token, client: createClient({ url, token }) };
    const builder = await buildAgent(server);
    await release(server, CONFIG, { [COMPONENT]: "1" }, { version: "1", channel: CHANNEL });
    await release(server, CONFIG, { [COMPONENT]: "2" }, { version: "2" });
    await builder.disconnect();
  } finally {
    await endProcess(child, "SIGTERM");
  }
}

async function putMember(
  tx: Tables,
  release: ReleaseRow,
  app: AppConfig,
  n: number,
): Promise<FleetMember> {
  const install = seededInstall(release, n);
  const components = deployedComponents(install, release, app);
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const key = publicKey.export({ type: "spki", format: "der" }).toString("base64");
  const agent = agentRow({
    id: newAgentId(),
    audience: install.id,
    installName: install.name,
    identityKey: key,
    sealingKey: key,
    sessionEpoch: 0,
    joinedAt: now(),
    seenAt: now(),
  });
  await tx.installs.put(install);
  for (const component of components) await tx.components.put(component);
  await tx.agents.put(agent);
  const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  return { install: install.id, agent: agent.id, privateKey: pem };
}

export function seededInstall(release: ReleaseRow, n: number): InstallRow {
  const index = releaseIndex(release);
  return installRow({
    id: newInstallId(),
    name: InstallName.parse(`customer-${n}`),
    app: release.app,
    appName: release.appName,
    channel: CHANNEL,
    synced: [...materialsOf(release), ...(index ? [index] : [])].map(({ repository, digest }) => ({
      repository,
      digest,
    })),
    runner: release.runner,
    setUpRelease: release.id,
    setUpAt: now(),
    createdAt: now(),
    revision: 1,
  });
}

/** As they are after the planner's own steps were carried out. */
export function deployedComponents(
  install: InstallRow,
  release: ReleaseRow,
  app: AppConfig,
): ComponentRow[] {
  const { steps } = decideInstall(factsOf(install, release, app), now());
  return steps
    .filter((step): step is ComponentStep => step.kind === "apply")
    .map((step) => ({
      ...emptyComponent(install.id, step.component, step.type),
      deployed: deployedBy(step, { there: null, release, app, inputs: install.inputs }),
      health: "healthy" as const,
      healthBecause: "as seeded",
      healthAt: now(),
      healthSince: now(),
      healthSource: "agent" as const,
    }));
}

export function factsOf(
  install: InstallRow,
  release: ReleaseRow,
  app: AppConfig,
  components: readonly ComponentRow[] = [],
): InstallFacts {
  const index = releaseIndex(release);
  return {
    install,
    release,
    app,
    components,
    indexes: new Map(index ? [[release.id, index]] : []),
    releases: new Map([[release.id, release]]),
    open: [],
    agent: agentRow({ audience: install.id, everConnected: true }),
    isAgentOnline: true,
    watch: { since: now(), looks: new Map() },
    isSetupOnline: false,
    serverStartedAt: now(),
    sandboxRelease: release,
  };
}

function now(): Instant {
  return Instant.parse(Date.now());
}
