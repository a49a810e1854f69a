// Two registries in the same process, with trouble between them and whoever copies.

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { Failure } from "@exclave/core";
import { createRegistryClient, type RegistryClient } from "../../client/registry-client.ts";
import { writeBlobBytes } from "../../content/content-store.ts";
import { type Descriptor, MEDIA_TYPES } from "../../content/descriptor.ts";
import { createRegistry } from "../../registry/registry.ts";
import { temporaryDirectory } from "../../testing/temporary-directory.ts";
import { type CopyArtifact, copyArtifact } from "../copy.ts";

export type Trouble = (request: IncomingMessage, response: ServerResponse) => boolean | undefined;

export interface Side {
  readonly client: RegistryClient;
  readonly url: string;
  readonly seen: string[];
  /** Meets every request first; true means it is dealt with. */
  trouble: Trouble;
}

export async function side(t: TestContext): Promise<Side> {
  const registry = createRegistry({
    directory: await temporaryDirectory(t),
    auth: { kind: "anonymous" },
  });
  const server = createServer((request, response) => {
    self.seen.push(`${request.method} ${request.url?.replace(/sha256:.*|uploads\/.*/, "…")}`);
    if (!self.trouble(request, response)) void registry.handle(request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = createRegistryClient({ url, backoffMs: 1 });
  const self: Side = { client, url, seen: [], trouble: () => false };
  t.after(async () => {
    client.close();
    server.closeAllConnections();
    server.close();
    await registry.close();
  });
  return self;
}

export async function world(t: TestContext, sizes: readonly number[] = [3_000_000]) {
  const [source, destination] = [await side(t), await side(t)];
  const contents = sizes.map((size) => randomBytes(size));
  const layers: Descriptor[] = [];
  for (const bytes of contents) {
    layers.push(await writeBlobBytes(source.client, "a", MEDIA_TYPES.layerTar, bytes));
  }
  const digest = await putImage(source.client, "a", { layers });
  source.seen.length = 0;
  destination.seen.length = 0;
  const copy = (options: Partial<CopyArtifact> = {}) =>
    copyArtifact({
      from: source.client,
      to: destination.client,
      source: { repository: "a", digest },
      target: { repository: "a" },
      ...options,
    });
  const [layer] = layers as [Descriptor];
  const [content] = contents as [Buffer];
  return { source, destination, layers, layer, content, digest, copy };
}

export async function putImage(client: RegistryClient, repository: string, fields: object) {
  const config = await writeBlobBytes(client, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const document = { schemaVersion: 2, mediaType: MEDIA_TYPES.manifest, config, layers: [] };
  const bytes = Buffer.from(JSON.stringify({ ...document, ...fields }));
  return client.writeManifest(repository, bytes, MEDIA_TYPES.manifest);
}

/** A trouble that makes it a registry in which clients keep the list of referrers themselves. */
export function knowsNoReferrers(request: IncomingMessage, response: ServerResponse): boolean {
  const write = response.writeHead.bind(response) as unknown as (
    status: number,
    headers: object,
  ) => ServerResponse;
  response.writeHead = ((status: number, headers: object = {}) => {
    const kept = Object.entries(headers).filter(([name]) => name !== "oci-subject");
    return write(status, Object.fromEntries(kept));
  }) as typeof response.writeHead;
  if (!request.url?.includes("/referrers/")) return false;
  response.writeHead(404).end();
  return true;
}

export function failsWith(code: string) {
  return (reason: unknown) => reason instanceof Failure && reason.code === code;
}
