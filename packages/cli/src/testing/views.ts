// Builders: a view with everything a test is not about filled in.

import type {
  AgentView,
  AuditView,
  ChannelView,
  ComponentView,
  InstallView,
  JobView,
  PluginView,
  ReleaseView,
  TokenView,
} from "@exclave/api";
import { appendAudit, EMPTY_CHAIN, Instant, PluginDescriptor } from "@exclave/core";

export const AT_MS = Date.UTC(2026, 0, 2, 3, 4, 5);
export const AT = new Date(AT_MS).toISOString();

export function componentView(name: string, given: Partial<ComponentView> = {}): ComponentView {
  return {
    name,
    type: "service",
    state: "deployed",
    health: "healthy",
    healthSince: null,
    healthAt: null,
    healthSource: null,
    healthBecause: "",
    drift: null,
    artifact: `sha256:${"a".repeat(64)}`,
    wantedArtifact: `sha256:${"a".repeat(64)}`,
    outputs: {},
    activeJob: null,
    dependsOn: [],
    ...given,
  };
}

export function installView(given: Partial<InstallView> = {}): InstallView {
  return {
    id: "iacmeaaaaaaaaaaaa",
    name: "acme",
    app: "crm",
    appId: "pcrmaaaaaaaaaaaaa",
    channel: "stable",
    release: "raaaaaaaaaaaaaaaa",
    version: "1",
    health: "healthy",
    phase: "settled",
    sandbox: "local",
    sandboxConfig: {},
    agent: { id: "aaaaaaaaaaaaaaaaa", status: "online", since: AT },
    inputs: {},
    components: [componentView("web", { outputs: { url: "http://127.0.0.1:9" } })],
    holds: [],
    alarms: [],
    createdAt: AT,
    ...given,
  };
}

export function jobView(given: Partial<JobView> = {}): JobView {
  return {
    id: "jaaaaaaaaaaaaaaab",
    operation: "apply",
    install: "acme",
    installId: "iacmeaaaaaaaaaaaa",
    component: "web",
    state: "succeeded",
    attempt: 1,
    unreachableSince: null,
    release: null,
    because: "first deploy",
    requestedBy: "server",
    createdAt: AT,
    startedAt: AT,
    endedAt: AT,
    failure: null,
    exitCode: null,
    report: null,
    plan: null,
    logBytes: 0,
    logComplete: true,
    manifestDigest: null,
    ...given,
  };
}

export function releaseView(given: Partial<ReleaseView> = {}): ReleaseView {
  return {
    id: "raaaaaaaaaaaaaaaa",
    app: "shop",
    appId: "pshopaaaaaaaaaaaa",
    version: "1",
    number: 1,
    state: "ready",
    digest: `sha256:${"b".repeat(64)}`,
    signed: true,
    channel: null,
    because: null,
    components: [],
    createdAt: AT,
    requestedBy: "admin",
    ...given,
  };
}

export function agentView(given: Partial<AgentView> = {}): AgentView {
  return {
    id: "aaaaaaaaaaaaaaaaa",
    kind: "build",
    audience: "build",
    install: null,
    status: "online",
    since: AT,
    version: "0.1.0",
    platform: "linux",
    runtime: "process",
    openJobs: 0,
    ...given,
  };
}

export function tokenView(given: Partial<TokenView> = {}): TokenView {
  return {
    id: "taaaaaaaaaaaaaaaa",
    name: "ci",
    role: "operator",
    createdAt: AT,
    expiresAt: null,
    revokedAt: null,
    ...given,
  };
}

export function channelView(given: Partial<ChannelView> = {}): ChannelView {
  const app = { app: "crm", appId: "pcrmaaaaaaaaaaaaa" };
  return { ...app, name: "stable", release: null, version: null, movedAt: AT, ...given };
}

export function pluginView(type: string, given: Partial<PluginDescriptor> = {}): PluginView {
  const descriptor = PluginDescriptor.parse({
    version: 1,
    type,
    operations: { build: { effect: "idempotent" }, apply: { effect: "idempotent" } },
    configSchema: { type: "object" },
    outputs: "open",
    ...given,
  });
  return {
    type,
    digest: `sha256:${"c".repeat(64)}`,
    repository: `exclave/plugins/${type}`,
    descriptor,
  };
}

/** A whole chain of so many rows. */
export function auditRows(size: number): AuditView[] {
  const rows: AuditView[] = [];
  for (let seq = 1; seq <= size; seq++) {
    const last = rows.at(-1);
    const head = last ? { size: last.seq, head: last.hash } : EMPTY_CHAIN;
    const at = Instant.parse(AT_MS + seq);
    rows.push(
      appendAudit(head, { at, actor: "admin", action: "test", subject: `row-${seq}`, details: {} }),
    );
  }
  return rows;
}

export function page<Item>(items: readonly Item[]): { items: Item[]; next: null } {
  return { items: [...items], next: null };
}
