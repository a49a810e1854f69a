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
import { openStore } from "../../store/open-store.ts";
import type { ComponentRow, InstallRow, ReleaseRow } from "../../store/rows.ts";
import type { Tables } from "../../store/store.ts";
import { type AgentCertificates, createAgentCertificates } from "../../tls/agent-certificates.ts";
import { openAuthority } from "../../tls/authority.ts";
import { certificateEnd } from "../../tls/certificate-rules.ts";
import { showOwn } from "../../tls/listener-tls.ts";
import { agentRow, installRow } from "../rows.ts";
import { buildAgent, release } from "../scripted-vendor.ts";
import { endProcess, startServerProcess } from "../server-process.ts";

export interface FleetMember {
  readonly install: string;
  readonly agent: string;
  /** PKCS #8, PEM. */
  readonly privateKey: string;
  /** PEM, by the server's authority, where it speaks TLS. */
  readonly certificate?: string;
}

export interface Fleet {
  readonly members: readonly FleetMember[];
  /** Secrets of people who may ask for jobs: one may ask for so many a second, so there are several. */
  readonly tokens: readonly string[];
  /** Releases by version: all installs have the first, the channel can be pointed at the second. */
  readonly releases: Readonly<Record<string, string>>;
  /** The certificate of the server's authority, where it speaks TLS, and what another server here shows by it. */
  readonly ca?: string;
  readonly beside?: { readonly cert: string; readonly key: string };
}

export interface SeedOptions {
  readonly hasTls?: boolean;
  /** Of a PostgreSQL database; a file in the server's directory unless given. */
  readonly databaseUrl?: string | undefined;
}

export const APP = "crm";
export const CHANNEL = "stable";
export const COMPONENT = "api";
const CONFIG = `app: ${APP}\ncomponents:\n  - { name: ${COMPONENT}, type: command, source: ./api }\n`;
const TOKENS = 32;
const ROWS_A_TRANSACTION = 500;

export async function seedFleet(
  data: string,
  installs: number,
  { hasTls = false, databaseUrl }: SeedOptions = {},
): Promise<Fleet> {
  await makeReleases(data, databaseUrl);
  const authority = hasTls
    ? await openAuthority({ keys: join(data, "keys"), now: Date.now })
    : undefined;
  const certificates = authority && createAgentCertificates(authority);
  const store = await openStore(join(data, "exclave.db"), databaseUrl);
  try {
    const releases = await store.read.releases.all();
    const first = releases.find(({ version }) => version === "1");
    if (!first) throw new Error("there is no release to seed");
    const app = createAppReader()(first);
    const members: FleetMember[] = [];
    for (let from = 0; from < installs; from += ROWS_A_TRANSACTION) {
      const count = Math.min(ROWS_A_TRANSACTION, installs - from);
      const some = await store.transaction(async (tx) => {
        const put: FleetMember[] = [];
        for (let n = from; n < from + count; n++) {
          put.push(await putMember(tx, { release: first, app, certificates }, n));
        }
        return put;
      });
      members.push(...some);
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
      ...(authority && {
        ca: authority.certificate.toString(),
        beside: showOwn(authority, ["127.0.0.1"]).context,
      }),
      releases: Object.fromEntries(releases.map(({ version, id }) => [version, id])),
    };
  } finally {
    await store.close();
  }
}

export async function makeReleases(data: string, databaseUrl?: string): Promise<void> {
  const env = databaseUrl === undefined ? {} : { EXCLAVE_DATABASE_URL: databaseUrl };
  const { child, url, token } = await startServerProcess(data, { env });
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

interface Seeding {
  readonly release: ReleaseRow;
  readonly app: AppConfig;
  readonly certificates: AgentCertificates | undefined;
}

async function putMember(
  tx: Tables,
  { release, app, certificates }: Seeding,
  n: number,
): Promise<FleetMember> {
  const install = seededInstall(release, n);
  const components = deployedComponents(install, release, app);
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const key = publicKey.export({ type: "spki", format: "der" }).toString("base64");
  const until = certificateEnd(now());
  const agent = agentRow({
    id: newAgentId(),
    ...(certificates && { certificateUntil: Instant.parse(until) }),
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
  return {
    install: install.id,
    agent: agent.id,
    privateKey: pem,
    ...(certificates && { certificate: certificates.issue(agent, until) }),
  };
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
