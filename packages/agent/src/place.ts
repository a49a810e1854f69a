// Where an agent's jobs run, and where their images and the statements about them come from.

import { join } from "node:path";
import { type ArtifactRef, type SandboxRules } from "@exclave/core";
import { type Access, createRegistryClient, givenAccess } from "@exclave/oci";
import { createProcessRuntime, type JobRuntime } from "@exclave/runtime";
import { type ComposeOptions } from "./compose.ts";
import { type Identity } from "./identity/identity.ts";
import { createPinnedRunner } from "./image/pinned-runner.ts";
import type { OwnInstall } from "./job/prepare-job.ts";
import type { Journal } from "./journal/journal.ts";
import { type Notices } from "./notices.ts";
import {
  createFindStatement,
  type OwnStatements,
  type StatementSources,
} from "./release/find-statements.ts";
import { createReleaseGate, type ReleaseGate } from "./release/release-gate.ts";
import { openRuntime, unpackedImages } from "./sandbox/open-runtime.ts";
import { type OwnRegistry, openOwnRegistry, readSandbox } from "./sandbox/sandbox.ts";
import { type TrustFile } from "./trust/trust-file.ts";

interface Place {
  readonly runtime: JobRuntime;
  readonly install?: OwnInstall | undefined;
  /** What the customer's sandbox allows; the vendor's own agents have none. */
  readonly sandboxRules?: SandboxRules | undefined;
  readonly gate: ReleaseGate;
}

interface OwnMemory {
  readonly journal: Journal;
  readonly trust: Pick<TrustFile, "role" | "current">;
  /** Told of unpacked images that somebody changed. */
  readonly notices?: Notices | undefined;
}

/** Where this agent's jobs run, and for an install agent what is its install's own. */
export async function openPlace(
  options: Pick<ComposeOptions, "kind" | "home" | "path" | "now" | "cluster">,
  identity: Pick<Identity, "audience" | "install" | "app"> & Partial<Pick<Vendor, "ca">>,
  { journal, trust, notices }: OwnMemory,
): Promise<Place> {
  const { kind, home, path, now } = options;
  const memory = journal;
  const role = () => trust.role("release");
  const origins = () => trust.current().origins;
  const vendor = { origins, ca: () => identity.ca?.() };
  const withVendor = openedByGrant(vendor);
  if (kind !== "install") {
    const directory = join(home, "runtime");
    const find = createFindStatement({ memory, role, withVendor });
    return {
      runtime: createProcessRuntime({
        directory,
        ...unpackedImages(directory, notices, vendor),
        path,
      }),
      gate: createReleaseGate({ kind, memory, find }),
    };
  }
  const sandbox = await readSandbox(join(home, "sandbox.json"));
  const runtime = await openRuntime(sandbox, { path, notices, cluster: options.cluster });
  const keyPath = join(home, "registry", "token.key");
  const id = identity.audience;
  const name = identity.install ?? id;
  const registry = await openOwnRegistry({ sandbox, keyPath, install: id, name, now });
  const own = { share: registry, withRegistry: openedWith(registry) };
  const find = createFindStatement({ memory, role, own, withVendor });
  const { app } = identity;
  const gate = createReleaseGate({ kind, app, pinnedRunner: sandbox.runner, memory, find });
  const holds = holdsIn(registry);
  const runner = createPinnedRunner(join(home, "runner"), registry);
  const install = { id, name, registry, sandbox, holds, runner };
  return { runtime, install, gate, sandboxRules: sandbox };
}

interface Vendor {
  readonly origins: () => readonly string[];
  /** In PEM: who vouches for the vendor's registry. */
  readonly ca: () => string | undefined;
}

/** The vendor's registry, as far as the server opened it for one job. */
function openedByGrant({ origins, ca }: Vendor): StatementSources["withVendor"] {
  return async ({ registryUrl: url, token, credential }, read) => {
    const access = givenAccess({ token, credential });
    const client = createRegistryClient({ url, origins: origins(), ca: ca(), ...access });
    try {
      return await read(client);
    } finally {
      client.close();
    }
  };
}

function openedWith(registry: OwnRegistry): OwnStatements["withRegistry"] {
  return async (repositories, read) => {
    const access = repositories.map(
      (name): Access => ({ type: "repository", name, actions: ["pull"] }),
    );
    const client = createRegistryClient({
      url: registry.url,
      ca: registry.ca,
      socket: registry.socket,
      token: await registry.token(access),
    });
    try {
      return await read(client);
    } finally {
      client.close();
    }
  };
}

function holdsIn({ url, ca, socket }: OwnRegistry): OwnInstall["holds"] {
  return async ({ repository, digest }: ArtifactRef, token: string) => {
    const client = createRegistryClient({ url, ca, socket, token });
    try {
      return (await client.headManifest(repository, digest)) !== undefined;
    } finally {
      client.close();
    }
  };
}
