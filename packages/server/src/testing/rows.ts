// Rows with everything a test is not about filled in.

import { Instant, JobId } from "@exclave/core";
import type { Deployed, InstallRow, JobRow } from "../store/rows.ts";
import { digestNamed } from "./scripted-vendor.ts";

export const AT = Instant.parse(1_000);

/** A job's id from one letter. */
export const jobId = (letter: string): JobId => JobId.parse(`j${letter.repeat(16)}`);

export const refNamed = (name: string) => ({ repository: name, digest: digestNamed(name) });

export function jobRow(changes: Partial<JobRow> = {}): JobRow {
  return {
    id: jobId("a"),
    attempt: 1,
    audience: "acme",
    install: "acme",
    app: "crm",
    component: null,
    release: null,
    operation: "apply",
    state: { status: "queued", since: AT },
    about: { kind: "destroy" },
    because: "",
    requestedBy: "test",
    createdAt: AT,
    startedAt: null,
    endedAt: null,
    failure: null,
    exitCode: null,
    plan: null,
    log: null,
    logComplete: false,
    manifestDigest: digestNamed("manifest"),
    reads: [],
    writes: [],
    ...changes,
  };
}

export function installRow(changes: Partial<InstallRow> = {}): InstallRow {
  return {
    name: "acme",
    app: "crm",
    channel: "stable",
    pinnedRelease: null,
    sandbox: "local",
    directory: "installs/acme",
    inputs: {},
    mode: "present",
    sandboxState: "present",
    sandboxFailure: null,
    allowDestroy: [],
    synced: [],
    runner: null,
    syncFailure: null,
    requestedBy: "test",
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
