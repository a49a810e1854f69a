// A vendor's side that works at once: images published, every build and sync succeeds.

import { join } from "node:path";
import { createRelease, getRelease, putSource, type ReleaseView } from "@exclave/api";
import {
  canonicalBytes,
  Digest,
  digestOf,
  digestOfBytes,
  type Manifest,
  PluginDescriptor,
  REPOSITORY_ANNOTATION,
} from "@exclave/core";
import { createRegistryFiles, MEDIA_TYPES, RELEASE_TYPE } from "@exclave/oci";
import {
  connectAgent,
  type Ending,
  joinVendorAgent,
  type ScriptedAgent,
} from "./scripted-agent.ts";
import { type TestServer, until } from "./test-server.ts";

/** A server, in whichever process it is. */
export type VendorServer = Pick<TestServer, "data" | "url" | "token" | "client">;

export const digestNamed = (name: string): Digest => digestOf({ name });

export const PLUGINS: readonly PluginDescriptor[] = [
  descriptor("command", ["build", "apply", "destroy", "status", "logs", "exec"]),
  descriptor("terraform", ["build", "plan", "apply", "destroy", "status"]),
  descriptor("image", ["build", "apply", "destroy", "status"]),
  descriptor("migration", ["build", "apply", "destroy"], ["apply"]),
];

function descriptor(
  type: string,
  operations: readonly string[],
  once: readonly string[] = ["exec"],
): PluginDescriptor {
  return PluginDescriptor.parse({
    version: 1,
    type,
    operations: Object.fromEntries(
      operations.map((name) => [
        name,
        { effect: once.includes(name) ? "at-most-once" : "idempotent" },
      ]),
    ),
    configSchema: { type: "object", additionalProperties: true },
    buildKeys: ["build"],
    outputs: "open",
  });
}

export const IMAGES = [
  { name: "runner", kind: "runner", repository: "exclave/runner", digest: digestNamed("runner") },
  ...PLUGINS.map((plugin) => ({
    name: plugin.type,
    kind: "plugin" as const,
    repository: `exclave/plugins/${plugin.type}`,
    digest: digestNamed(`plugin ${plugin.type}`),
    descriptor: plugin,
  })),
  {
    name: "local",
    kind: "sandbox",
    repository: "exclave/sandboxes/local",
    digest: digestNamed("local"),
  },
] as const;

/** What a build or an assemble leaves: an artifact whose digest is a function of what went in. */
export function builtBy(manifest: Manifest): Ending {
  const [step] = manifest.steps;
  const repository = String(step?.parameters["repository"]);
  if (isAssembling(manifest)) {
    const digest = digestOfBytes(indexOf(manifest));
    return { artifacts: [{ type: "artifact", name: "release", repository, digest }] };
  }
  const name = manifest.operation === "assemble" ? "release" : (step?.component ?? "");
  const digest = digestOf({ source: step?.artifact?.digest ?? manifest.release, name });
  const artifact = { type: "artifact", name, repository, digest, sizeBytes: 1_000 } as const;
  return { artifacts: [artifact], log: `built ${name}\n` };
}

function isAssembling({ operation, steps }: Manifest): boolean {
  return operation === "assemble" && steps[0]?.parameters["attach"] === undefined;
}

/** The index as the runner writes it. */
function indexOf({ steps }: Manifest): Uint8Array {
  const [step] = steps;
  const mediaType = MEDIA_TYPES.manifest;
  const manifests = (step?.materials ?? []).map(({ name, repository, digest }) => ({
    mediaType,
    digest,
    size: 1_000,
    annotations: { "dev.exclave.material": name, [REPOSITORY_ANNOTATION]: repository },
  }));
  const { annotations } = step?.parameters ?? {};
  const index = { schemaVersion: 2, mediaType: MEDIA_TYPES.index, artifactType: RELEASE_TYPE };
  return canonicalBytes({ ...index, manifests, annotations });
}

/** Puts bytes into the vendor's registry as an index, whatever they are; of its entries nothing is there. */
export async function pushIndex(
  { data }: Pick<TestServer, "data">,
  manifest: Manifest,
  bytes = indexOf(manifest),
): Promise<Digest> {
  const repository = String(manifest.steps[0]?.parameters["repository"]);
  const digest = digestOfBytes(bytes);
  const stored = { bytes, digest, mediaType: MEDIA_TYPES.index };
  const files = createRegistryFiles(join(data, "registry"));
  await files.putManifest(repository, stored, [], { mayLackBlobs: true });
  return digest;
}

export async function pushAndBuild(server: VendorServer, manifest: Manifest): Promise<Ending> {
  if (isAssembling(manifest)) await pushIndex(server, manifest);
  return builtBy(manifest);
}

export async function buildAgent(
  server: VendorServer,
  onJob: (manifest: Manifest) => Promise<Ending | undefined> = async (manifest) =>
    builtBy(manifest),
): Promise<ScriptedAgent> {
  const agent = await connectAgent(await joinVendorAgent(server, "build"), {
    async onJob(manifest) {
      if (isAssembling(manifest)) await pushIndex(server, manifest);
      return onJob(manifest);
    },
  });
  await agent.say({ type: "images_published", at: Date.now(), images: [...IMAGES] });
  return agent;
}

export async function uploadSource({ client }: VendorServer, text: string): Promise<Digest> {
  const bytes = new TextEncoder().encode(text);
  const digest = digestOfBytes(bytes);
  await client.call(putSource, { params: { digest }, body: bytes });
  return digest;
}

export async function release(
  server: VendorServer,
  config: string,
  sources: Readonly<Record<string, string>>,
  more: { channel?: string; version?: string; plugins?: Record<string, PluginDescriptor> } = {},
): Promise<ReleaseView> {
  const digests: Record<string, Digest> = {};
  for (const [name, text] of Object.entries(sources))
    digests[name] = await uploadSource(server, text);
  const { id } = await server.client.call(createRelease, {
    body: { config, sources: digests, ...more },
  });
  return until(
    () => server.client.call(getRelease, { params: { release: id } }),
    ({ state }) => state !== "building",
    "the release is over",
  );
}
