// A vendor's side that works at once: images published, every build and sync succeeds.

import { createRelease, getRelease, putSource, type ReleaseView } from "@exclave/api";
import { Digest, digestOf, digestOfBytes, type Manifest, PluginDescriptor } from "@exclave/core";
import {
  connectAgent,
  type Ending,
  joinVendorAgent,
  type ScriptedAgent,
} from "./scripted-agent.ts";
import { type TestServer, until } from "./test-server.ts";

export const digestNamed = (name: string): Digest => digestOf({ name });

export const PLUGINS: readonly PluginDescriptor[] = [
  descriptor("command", ["build", "apply", "destroy", "status", "logs", "exec"]),
  descriptor("terraform", ["build", "plan", "apply", "destroy", "status"]),
  descriptor("image", ["build", "apply", "destroy", "status"]),
];

function descriptor(type: string, operations: readonly string[]): PluginDescriptor {
  return PluginDescriptor.parse({
    version: 1,
    type,
    operations: Object.fromEntries(
      operations.map((name) => [name, { effect: name === "exec" ? "at-most-once" : "idempotent" }]),
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
  const name = manifest.operation === "assemble" ? "release" : (step?.component ?? "");
  const digest = digestOf({ source: step?.artifact?.digest ?? manifest.release, name });
  const artifact = { type: "artifact", name, repository, digest, sizeBytes: 1_000 } as const;
  return { artifacts: [artifact], log: `built ${name}\n` };
}

export async function buildAgent(
  server: TestServer,
  onJob: (manifest: Manifest) => Promise<Ending | undefined> = async (manifest) =>
    builtBy(manifest),
): Promise<ScriptedAgent> {
  const agent = await connectAgent(await joinVendorAgent(server, "build"), { onJob });
  await agent.say({ type: "images_published", at: Date.now(), images: [...IMAGES] });
  return agent;
}

export async function uploadSource({ client }: TestServer, text: string): Promise<Digest> {
  const bytes = new TextEncoder().encode(text);
  const digest = digestOfBytes(bytes);
  await client.call(putSource, { params: { digest }, body: bytes });
  return digest;
}

export async function release(
  server: TestServer,
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
