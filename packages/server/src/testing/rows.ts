// Rows with everything a test is not about filled in.

import { AgentId, AppId, type Deployed, InstallId, Instant, JobId } from "@exclave/core";
import type { InstallFacts } from "../install/gather-install.ts";
import type { AgentRow, InstallRow, JobRow, ReleaseRow } from "../store/rows.ts";
import { digestNamed } from "./scripted-vendor.ts";

export const ACME = InstallId.parse("iacmeaaaaaaaaaaaa");
export const CRM_ID = AppId.parse("pcrmaaaaaaaaaaaaa");

export const AGENT = AgentId.parse("aaaaaaaaaaaaaaaaa");

export const AT = Instant.parse(1_000);

/** A job's id from one letter. */
export const jobId = (letter: string): JobId => JobId.parse(`j${letter.repeat(16)}`);

export const refNamed = (name: string) => ({ repository: name, digest: digestNamed(name) });

export function jobRow(changes: Partial<JobRow> = {}): JobRow {
  return {
    id: jobId("a"),
    attempt: 1,
    audience: ACME,
    install: ACME,
    installName: "acme",
    app: CRM_ID,
    component: null,
    release: null,
    operation: "apply",
    effect: "idempotent",
    state: { status: "queued", since: AT },
    purpose: { kind: "destroy" },
    because: "",
    requestedBy: "test",
    trace: null,
    createdAt: AT,
    startedAt: null,
    endedAt: null,
    failure: null,
    exitCode: null,
    report: null,
    plan: null,
    log: null,
    logComplete: false,
    manifestDigest: digestNamed("manifest"),
    joinGivenAt: null,
    reads: [],
    writes: [],
    ...changes,
  };
}

export function installRow(changes: Partial<InstallRow> = {}): InstallRow {
  return {
    id: ACME,
    name: "acme",
    app: CRM_ID,
    appName: "crm",
    channel: "stable",
    pinnedRelease: null,
    sandbox: "local",
    sandboxConfig: {},
    inputs: {},
    mode: "present",
    sandboxState: "present",
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
    requestedBy: "test",
    trace: null,
    revision: 3,
    createdAt: AT,
    ...changes,
  };
}

export function deployedRow(changes: Partial<Deployed> = {}): Deployed {
  return {
    deployKey: digestNamed("key"),
    type: "command",
    plugin: refNamed("plugin"),
    config: {},
    inputs: {},
    generatedSecrets: [],
    dependsOn: [],
    effects: { apply: "idempotent", destroy: "idempotent" },
    release: "r1",
    ...changes,
  };
}

export function releaseRow(changes: Partial<ReleaseRow> = {}): ReleaseRow {
  return {
    id: "r1",
    app: CRM_ID,
    appName: "crm",
    version: "1",
    number: 1,
    state: "ready",
    file: "exclave.yaml",
    config: "",
    runner: refNamed("exclave/runner"),
    plugins: [],
    components: [],
    channel: null,
    assembleJob: null,
    sandboxes: [{ type: "local", image: refNamed("exclave/sandboxes/local"), effects: {} }],
    signJob: null,
    signedBy: null,
    unsignedBecause: null,
    digest: digestNamed("index"),
    rollbackNumberMin: 1,
    because: null,
    createdAt: AT,
    requestedBy: "test",
    trace: null,
    ...changes,
  };
}

export function agentRow(changes: Partial<AgentRow> = {}): AgentRow {
  return {
    id: AGENT,
    kind: "install",
    audience: ACME,
    installName: "acme",
    identityKey: "",
    sealingKey: "",
    trustVersion: 1,
    keyGeneration: 1,
    joinedAt: AT,
    revokedAt: null,
    version: "0",
    platform: "",
    runtime: "",
    seenAt: AT,
    isInventoryWanted: false,
    everConnected: true,
    journalId: null,
    heldBy: null,
    sessionEpoch: 1,
    upAcked: 0,
    downHead: 0,
    downAcked: 0,
    reset: null,
    boots: [],
    alarms: [],
    ...changes,
  };
}

/** An install of which nothing is there and nothing under way. */
export function installFacts(facts: Partial<InstallFacts> = {}): InstallFacts {
  return {
    install: installRow(),
    components: [],
    indexes: new Map(),
    releases: new Map(),
    open: [],
    isAgentOnline: true,
    isSetupOnline: true,
    serverStartedAt: AT,
    ...facts,
  };
}
