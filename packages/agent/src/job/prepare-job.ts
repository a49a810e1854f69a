// Makes of a verified manifest what its job is handed: configuration with every expression evaluated
// in the install, the registries it may use and how far, and the image that runs. Nothing is prepared
// that does not lie in the install's own registry.

import { randomBytes } from "node:crypto";
import { decodeJoinString, type Grant } from "@exclave/api";
import {
  type ArtifactRef,
  componentRepository,
  enforcedLimits,
  engineIn,
  Failure,
  JobDocument,
  type JobName,
  jobClassOf,
  type Limits,
  leavesOf,
  type Manifest,
  type ManifestStep,
  releaseRepository,
  usesOf,
} from "@exclave/core";
import { imageRepository } from "@exclave/machine/engine";
import type { Access } from "@exclave/oci";
import type { ImageRef, JobSpec } from "@exclave/runtime";
import type { PinnedRunner } from "../image/pinned-runner.ts";
import type { Journal, JournalWrite } from "../journal/journal.ts";
import type { Admitted, ReleaseGate } from "../release/release-gate.ts";
import { mountCandidates, ownPlace } from "../sandbox/own-repository.ts";
import type { OwnRegistry } from "../sandbox/sandbox.ts";

export interface PrepareJob {
  readonly name: JobName;
  readonly manifest: Manifest;
  readonly step: ManifestStep;
  readonly grant?: Grant | undefined;
  /** For a setup: what it hands to the new install's agent. */
  readonly joinString?: string | undefined;
  readonly now: number;
}

export interface PreparedJob {
  readonly spec: JobSpec;
  /** Values that must not appear in what the job says. */
  readonly secrets: readonly string[];
  /** Likewise, and to be written down nowhere. */
  readonly secretsInMemory: readonly string[];
  /** What was learnt about releases: to be journaled before the job is started. */
  readonly writes: readonly JournalWrite[];
}

export interface Workplace {
  /** Only an install has one; the vendor's own agents work with the vendor's registry. */
  readonly own?: OwnInstall | undefined;
  readonly gate: ReleaseGate;
  readonly journal: Journal;
  /** The vendor's, from the trust document: a registry of theirs sends a job nowhere else. */
  readonly origins: () => readonly string[];
  /** In PEM: who vouches for the vendor's registry; the machine's roots unless given. */
  readonly ca?: string | undefined;
  /** The most a job may use here, whatever its manifest says. */
  readonly limits?: Limits | undefined;
  readonly evaluate: (config: Config, scope: Scope) => Config;
  /** Configuration by type of sandbox, where an install gives none; for a setup agent. */
  readonly sandboxDefaults?: Readonly<Record<string, Config>> | undefined;
}

export interface OwnInstall {
  readonly id: string;
  /** For people to read. */
  readonly name: string;
  readonly registry: OwnRegistry;
  readonly sandbox: Readonly<Record<string, unknown>>;
  /** Whether the install's registry holds it. */
  readonly holds: (ref: ArtifactRef, token: string) => Promise<boolean>;
  /** A copy of the runner outside the registry, for when the registry has lost it. */
  readonly runner: PinnedRunner;
}

export type Config = Record<string, unknown>;

/** What `${{ }}` can name. */
export interface Scope {
  readonly install: { readonly id: string; readonly name: string };
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly secrets: Readonly<Record<string, string>>;
  readonly sandbox: Readonly<Record<string, unknown>>;
  readonly components: Readonly<Record<string, { readonly outputs: Record<string, unknown> }>>;
}

export async function prepareJob(job: PrepareJob, place: Workplace): Promise<PreparedJob> {
  const admitted = await place.gate.admit(job.manifest, job.grant);
  const vendor = { origins: [...place.origins()], ...(place.ca !== undefined && { ca: place.ca }) };
  const places = place.own
    ? await inInstall(job, place.own, { ...admitted, vendor })
    : await atVendor(job, vendor);
  const { config, secrets: own } = place.own
    ? configInInstall(job, place, place.own)
    : { config: configAtVendor(job, place), secrets: [] };
  const secrets = [...own, ...granted(job)];
  const secretsInMemory = joinSecrets(job);

  const { manifest, step, name } = job;
  const limits = enforcedLimits(step.operation, manifest.limits, place.limits);
  const document = JobDocument.parse({
    version: 1,
    job: manifest.id,
    attempt: manifest.attempt,
    install: place.own?.name ?? manifest.install?.name,
    installId: place.own?.id ?? manifest.install?.id,
    app: manifest.app,
    release: manifest.release,
    component: step.component,
    type: step.type,
    operation: step.operation,
    config,
    parameters: { ...step.parameters, ...places.parameters, joinString: job.joinString },
    ...places.content,
    ...places.access,
    engine: await engineFor(job, place.own),
    secrets: [...secrets, ...secretsInMemory],
    deadlineAt: job.now + manifest.deadlineMs,
    limits,
  });
  const stateVolume = stateVolumeOf(job, place);
  const spec: JobSpec = {
    name,
    image: places.image,
    files: { "job.json": JSON.stringify(document) },
    jobClass: jobClassOf(step.operation, place.own === undefined && manifest.install !== undefined),
    environment: {},
    limits,
    network: networkOf(job),
    deadlineMs: manifest.deadlineMs,
    ...(stateVolume !== undefined && { stateVolume }),
  };
  return { spec, secrets, secretsInMemory, writes: admitted.writes };
}

/** A component's job may look after the component's own containers, where the sandbox has an engine. */
async function engineFor(
  { step }: PrepareJob,
  own: OwnInstall | undefined,
): Promise<JobDocument["engine"]> {
  const engine = engineIn(own?.sandbox.runtime);
  if (!own || !engine) return undefined;
  if (step.component === undefined || step.operation === "sync") return undefined;
  const { owner, network = "bridge", engineService } = engine;
  return {
    token: await own.registry.tokenFor(engineService, step.component),
    owner,
    image: `${imageRepository(owner)}:${step.plugin.digest.replace("sha256:", "")}`,
    network,
  };
}

interface Places {
  readonly image: ImageRef;
  /** By the names it has in the registry the job reads. */
  readonly content: Pick<JobDocument, "artifact" | "materials">;
  readonly access: Pick<JobDocument, "registry" | "pushTo" | "source">;
  readonly parameters?: Readonly<Record<string, unknown>>;
}

async function inInstall(
  { step, grant }: PrepareJob,
  own: OwnInstall,
  { statements, vendor }: Pick<Admitted, "statements"> & { readonly vendor: Vendor },
): Promise<Places> {
  const { registry } = own;
  const isSync = step.operation === "sync";
  const { plugin, artifact, materials } = step;
  const read = [plugin, ...(artifact ? [artifact] : []), ...(isSync ? [] : materials)];
  const places = read.map((ref) => ownPlace(registry, ref));
  const token = await registry.token(accessTo(places, ["pull"]));
  // A destroy runs from what was unpacked when it was deployed, and says itself what it lacks.
  for (const place of step.operation === "destroy" ? [] : places) {
    if (isSync && !(await own.holds(place, token))) await own.runner.restore(place);
    await mustHold(own, place, token);
  }

  const { url, ca, socket } = registry;
  const image = { registryUrl: url, ...ownPlace(registry, plugin), token, ca, socket };
  if (!isSync) {
    const content = {
      artifact: artifact && ownPlace(registry, artifact),
      materials: materials.map((material) => ownPlace(registry, material)),
    };
    return { image, content, access: { registry: { url, token, ca, isOwn: true } } };
  }

  const { registryUrl, credential } = mustHaveGrant(grant);
  const brought = withStatements(step, statements);
  const mountFrom = mountCandidates(registry, materials, homesOf(step));
  const pushToken = await registry.token(syncAccess(brought, registry, mountFrom));
  return {
    image,
    content: { materials: brought },
    access: {
      registry: { url: registryUrl, credential, ...vendor },
      pushTo: { url, token: pushToken, repository: registry.repository, ca, isOwn: true },
    },
    parameters: { mountFrom },
  };
}

/** How the vendor's registry is known from others: where it may send us, and who vouches for it. */
interface Vendor {
  readonly origins: string[];
  readonly ca?: string;
}

type Material = ManifestStep["materials"][number];

/** Statements go before the releases they are about: a release that is there can be verified. */
function withStatements(
  { materials, releases = [] }: ManifestStep,
  statements: Admitted["statements"],
): Material[] {
  const isRelease = ({ digest }: Material) => releases.some((index) => index.digest === digest);
  const { true: indexes = [], false: others = [] } = Object.groupBy(materials, (material) =>
    isRelease(material) ? "true" : "false",
  );
  return [...others, ...statements, ...indexes];
}

/** A sync writes what it brings; where the same blobs may lie already, it reads. */
function syncAccess(
  materials: readonly Material[],
  registry: OwnRegistry,
  mountFrom: readonly string[],
): Access[] {
  const targets = materials.map((material) => ownPlace(registry, material));
  const written = accessTo(targets, ["pull", "push"]);
  const others = mountFrom.filter((name) => !written.some((access) => access.name === name));
  return [...written, ...others.map((name): Access => ({ ...REPOSITORY, name }))];
}

/** Where, says the manifest, this install may have the same blobs from before. */
function homesOf({ parameters: { mountFrom } }: ManifestStep): string[] {
  return Array.isArray(mountFrom) ? mountFrom.map(String) : [];
}

const REPOSITORY: Omit<Access, "name"> = { type: "repository", actions: ["pull"] };

async function atVendor({ manifest, step, grant }: PrepareJob, vendor: Vendor): Promise<Places> {
  const { registryUrl, credential, sourceUrl, sourceToken } = mustHaveGrant(grant);
  const image = { registryUrl, ...step.plugin, credential };
  const registry = { url: registryUrl, credential, ...vendor };
  const { materials } = step;
  // A build's artifact is its source, which is no artifact of a registry yet.
  const artifact = step.operation === "build" ? undefined : step.artifact;
  const content = { artifact, materials };
  if (step.operation !== "build" && step.operation !== "assemble") {
    return { image, content, access: { registry } };
  }
  const repository = step.parameters.repository ?? defaultRepository(manifest, step);
  if (typeof repository !== "string") {
    throw new Failure("invalid", "the manifest does not say where the result is to be pushed");
  }
  const source =
    step.operation === "build" && sourceUrl && sourceToken && step.artifact
      ? { url: sourceUrl, token: sourceToken, digest: step.artifact.digest, ca: vendor.ca }
      : undefined;
  return { image, content, access: { registry, pushTo: { ...registry, repository }, source } };
}

function defaultRepository({ app }: Manifest, step: ManifestStep): string | undefined {
  if (app === undefined) return undefined;
  if (step.operation === "assemble") return releaseRepository(app);
  return step.component === undefined ? undefined : componentRepository(app, step.component);
}

async function mustHold(own: OwnInstall, ref: ArtifactRef, token: string): Promise<void> {
  if (await own.holds(ref, token)) return;
  const what = `${ref.repository}@${ref.digest}`;
  throw new Failure("not_synced", `${what} is not in the registry of ${own.name}`);
}

function mustHaveGrant(grant: Grant | undefined): Grant {
  if (grant) return grant;
  throw new Failure("forbidden", "the server gave no access to the vendor's registry");
}

function accessTo(refs: readonly ArtifactRef[], actions: Access["actions"]): Access[] {
  const repositories = new Set(refs.map(({ repository }) => repository));
  return [...repositories].map((name) => ({ type: "repository", name, actions }));
}

/** A sandbox's own configuration, and what this setup agent says of all of its type. */
function configAtVendor({ manifest, step }: PrepareJob, { sandboxDefaults }: Workplace): Config {
  const type = manifest.install && step.type;
  const usual = type === undefined ? undefined : sandboxDefaults?.[type];
  return { ...usual, ...step.config };
}

/** Values are made where they are used: the server never sees them. */
function configInInstall(
  { manifest, step }: PrepareJob,
  { journal, evaluate }: Workplace,
  own: OwnInstall,
): { config: Config; secrets: string[] } {
  const secrets = generatedSecrets(manifest, journal);
  const kept = journal.outputs();
  const scope: Scope = {
    install: { id: own.id, name: own.name },
    inputs: manifest.inputs,
    secrets,
    sandbox: own.sandbox,
    components: Object.fromEntries(
      [...kept].map(([component, outputs]) => [
        component,
        { outputs: Object.fromEntries(outputs.map(({ name, value }) => [name, value])) },
      ]),
    ),
  };
  const sensitive = [...kept.values()]
    .flat()
    .filter((output) => output.sensitive)
    .flatMap(({ value }) => leavesOf(value).values);
  if (step.operation === "sync") {
    return { config: step.config, secrets: [...Object.values(secrets), ...sensitive] };
  }
  mustKeepOutputs(step, kept);
  const config = evaluate(step.config, scope);
  return { config, secrets: [...Object.values(secrets), ...sensitive] };
}

/** After a lost journal and a lost vault: the server has what gave them out applied again. */
function mustKeepOutputs({ config }: ManifestStep, kept: ReturnType<Journal["outputs"]>): void {
  const lost = usesOf(config).components.filter((name) => !kept.has(name));
  if (lost.length === 0) return;
  const message = `what ${lost.join(", ")} gave out is not kept here any more`;
  throw new Failure("outputs_lost", message);
}

/** Made on first use, kept in the install from then on. */
function generatedSecrets(manifest: Manifest, journal: Journal): Record<string, string> {
  const secrets: Record<string, string> = {};
  for (const { name, bytes, encoding } of manifest.generatedSecrets) {
    const kept = journal.secret(name);
    const value = kept ?? randomBytes(bytes).toString(encoding);
    if (kept === undefined) journal.commit([{ kind: "secret", name, value }]);
    secrets[name] = value;
  }
  return secrets;
}

/** Opens the vendor's registry as long as the job runs: nothing to be found in its log. */
function granted({ grant }: PrepareJob): string[] {
  return [grant?.credential, grant?.sourceToken].filter((value) => value !== undefined);
}

/** As it is handed on, and the secret that is in it. */
function joinSecrets({ joinString }: PrepareJob): string[] {
  if (joinString === undefined) return [];
  const secret = decodeJoinString(joinString)?.secret;
  return secret === undefined ? [joinString] : [joinString, secret];
}

/** A sync brings what lies at the vendor; every other job reaches out only if its manifest says so. */
function networkOf({ manifest, step }: PrepareJob): JobSpec["network"] {
  return step.operation === "sync" ? "outbound" : manifest.network;
}

function stateVolumeOf({ manifest, step }: PrepareJob, { own }: Workplace): string | undefined {
  if (own) return step.component;
  // A setup agent makes many sandboxes; each has a place of its own.
  return manifest.install && `${step.component}-${manifest.install.id}`;
}
