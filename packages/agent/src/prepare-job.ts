// Makes of a verified manifest what its job is handed: configuration with every expression evaluated
// in the install, the registries it may use and how far, and the image that runs. Nothing is prepared
// that does not lie in the install's own registry.

import { randomBytes } from "node:crypto";
import type { Grant } from "@exclave/api";
import {
  type ArtifactRef,
  componentRepository,
  Failure,
  JobDocument,
  type JobName,
  type Manifest,
  type ManifestStep,
  releaseRepository,
} from "@exclave/core";
import type { Access } from "@exclave/oci";
import type { ImageRef, JobSpec } from "@exclave/runtime";
import type { Released } from "./check-released.ts";
import type { Journal } from "./journal/journal.ts";
import { mountCandidates, ownPlace } from "./own-repository.ts";
import type { OwnRegistry } from "./sandbox.ts";

export interface PrepareJob {
  readonly name: JobName;
  readonly manifest: Manifest;
  readonly step: ManifestStep;
  readonly grant?: Grant | undefined;
  readonly now: number;
}

export interface PreparedJob {
  readonly spec: JobSpec;
  /** Values that must not appear in what the job says. */
  readonly secrets: readonly string[];
}

export interface Workplace {
  /** Only an install has one; the vendor's own agents work with the vendor's registry. */
  readonly own?: OwnInstall | undefined;
  readonly journal: Journal;
  /** Programs of the machine, for plugins that run some. */
  readonly path: string;
  readonly evaluate: (config: Config, scope: Scope) => Config;
}

export interface OwnInstall {
  readonly name: string;
  readonly registry: OwnRegistry;
  readonly sandbox: Readonly<Record<string, unknown>>;
  /** Whether the install's registry holds it. */
  readonly holds: (ref: ArtifactRef, token: string) => Promise<boolean>;
  readonly released: Released;
  /** The pinned key that signs releases, base64 SPKI DER. */
  readonly releaseKey: string;
}

export type Config = Record<string, unknown>;

/** What `${{ }}` can name. */
export interface Scope {
  readonly install: { readonly name: string };
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly secrets: Readonly<Record<string, string>>;
  readonly sandbox: Readonly<Record<string, unknown>>;
  readonly components: Readonly<Record<string, { readonly outputs: Record<string, unknown> }>>;
}

export async function prepareJob(job: PrepareJob, place: Workplace): Promise<PreparedJob> {
  const places = place.own ? await inInstall(job, place.own) : await atVendor(job);
  const { config, secrets: own } = place.own
    ? configInInstall(job, place, place.own)
    : { config: job.step.config, secrets: tokensOf(job) };
  const secrets = [...own, ...granted(job)];

  const { manifest, step, name } = job;
  const document = JobDocument.parse({
    version: 1,
    job: manifest.id,
    attempt: manifest.attempt,
    install: place.own?.name,
    app: manifest.app,
    release: manifest.release,
    component: step.component,
    type: step.type,
    operation: step.operation,
    config,
    parameters: { ...step.parameters, ...places.parameters },
    ...places.content,
    ...places.access,
    secrets,
    deadlineAt: job.now + manifest.deadlineMs,
  });
  const stateVolume = stateVolumeOf(step, place);
  const spec: JobSpec = {
    name,
    image: places.image,
    files: { "job.json": JSON.stringify(document) },
    environment: { PATH: place.path },
    limits: manifest.limits,
    deadlineMs: manifest.deadlineMs,
    ...(stateVolume !== undefined && { stateVolume }),
  };
  return { spec, secrets };
}

interface Places {
  readonly image: ImageRef;
  /** By the names it has in the registry the job reads. */
  readonly content: Pick<JobDocument, "artifact" | "materials">;
  readonly access: Pick<JobDocument, "registry" | "pushTo" | "source">;
  readonly parameters?: Readonly<Record<string, unknown>>;
}

async function inInstall({ step, grant }: PrepareJob, own: OwnInstall): Promise<Places> {
  const { registry } = own;
  const isSync = step.operation === "sync";
  const { plugin, artifact, materials } = step;
  const read = [plugin, ...(artifact ? [artifact] : []), ...(isSync ? [] : materials)];
  const places = read.map((ref) => ownPlace(registry, ref));
  const token = await registry.token(accessTo(places, ["pull"]));
  for (const place of places) await mustHold(own, place, token);

  const image = { registryUrl: registry.url, ...ownPlace(registry, plugin), token };
  if (!isSync) {
    // A release lists what it needs by the vendor's names.
    await own.released(step.releases ?? [], read);
    const content = {
      artifact: artifact && ownPlace(registry, artifact),
      materials: materials.map((material) => ownPlace(registry, material)),
    };
    return { image, content, access: { registry: { url: registry.url, token } } };
  }

  const vendor = mustHaveGrant(grant);
  const mountFrom = mountCandidates(registry, materials, homesOf(step));
  const pushToken = await registry.token(syncAccess(step, registry, mountFrom));
  return {
    image,
    content: { artifact, materials },
    access: {
      registry: { url: vendor.registryUrl, credential: vendor.credential },
      pushTo: { url: registry.url, token: pushToken, repository: registry.repository },
    },
    parameters: {
      mountFrom,
      releases: (step.releases ?? []).map(({ digest }) => digest),
      releaseKeys: [own.releaseKey],
    },
  };
}

/** A sync writes what it brings; where the same blobs may lie already, it reads. */
function syncAccess(
  { materials }: ManifestStep,
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

async function atVendor({ manifest, step, grant }: PrepareJob): Promise<Places> {
  const { registryUrl, credential, sourceUrl, sourceToken } = mustHaveGrant(grant);
  const image = { registryUrl, ...step.plugin, credential };
  const registry = { url: registryUrl, credential };
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
      ? { url: sourceUrl, token: sourceToken, digest: step.artifact.digest }
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

/** Values are made where they are used: the server never sees them. */
function configInInstall(
  { manifest, step }: PrepareJob,
  { journal, evaluate }: Workplace,
  own: OwnInstall,
): { config: Config; secrets: string[] } {
  const secrets = generatedSecrets(manifest, journal);
  const kept = journal.outputs();
  const scope: Scope = {
    install: { name: own.name },
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
    .map(({ value }) => (typeof value === "string" ? value : JSON.stringify(value)));
  const config = step.operation === "sync" ? step.config : evaluate(step.config, scope);
  return { config, secrets: [...Object.values(secrets), ...sensitive] };
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

/** A setup is handed the secret by which the new agent joins. */
function tokensOf({ step }: PrepareJob): string[] {
  const { joinString } = step.parameters;
  return typeof joinString === "string" ? [joinString] : [];
}

function stateVolumeOf(step: ManifestStep, { own }: Workplace): string | undefined {
  if (own) return step.component;
  // A setup agent makes many sandboxes; each has a place of its own.
  const { install } = step.config;
  const isSetup = step.operation !== "build" && step.operation !== "assemble";
  return isSetup && typeof install === "string" ? `${step.component}-${install}` : undefined;
}
