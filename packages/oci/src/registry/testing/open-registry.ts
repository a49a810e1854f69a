// A registry of its own for each test of the distribution specification, and how to speak with it:
// plain requests, so that nothing of our client stands between the test and the answer.

import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { Digest } from "@exclave/core";
import { MEDIA_TYPES } from "../../content/descriptor.ts";
import { digestOf } from "../../content/digest.ts";
import type { ObjectStore } from "../../objects/object-store.ts";
import type { RegistryOptions } from "../registry.ts";
import { serveRegistry } from "../serve-registry.ts";

export interface OpenRegistry {
  readonly directory: string;
  readonly url: string;
  readonly send: (method: string, path: string, init?: RequestInit) => Promise<Response>;
  /** Brings a blob in with one request. */
  readonly push: (repository: string, bytes: Uint8Array | string) => Promise<Digest>;
  /** An upload's location. */
  readonly begin: (repository: string, query?: string) => Promise<string>;
  /** An index if it has `manifests`, else a manifest with an empty configuration, pushed first. */
  readonly putManifest: (
    repository: string,
    reference: string,
    fields?: object,
  ) => Promise<{ readonly response: Response; readonly digest: Digest; readonly body: string }>;
}

export const EMPTY = { mediaType: MEDIA_TYPES.empty, digest: digestOf("{}"), size: 2 };

let createObjects: (() => ObjectStore) | undefined;

/** From now on, registries of this process keep their content in an object store. */
export function keepInObjects(create: () => ObjectStore): void {
  createObjects = create;
}

export async function openRegistry(
  t: TestContext,
  options: Partial<RegistryOptions> = {},
): Promise<OpenRegistry> {
  const directory = await mkdtemp(join(tmpdir(), "exclave-registry-"));
  const running = await serveRegistry({
    directory,
    objects: createObjects?.(),
    auth: { kind: "anonymous" },
    host: "127.0.0.1",
    port: 0,
    ...options,
  });
  // In this order: a registry that still writes makes directories again while they are removed.
  t.after(async () => {
    await running.close();
    await rm(directory, { recursive: true, force: true });
  });
  return { directory, url: running.url, send, push, begin, putManifest };

  function send(method: string, path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(new URL(path, running.url), { method, ...init });
  }

  async function push(repository: string, bytes: Uint8Array | string): Promise<Digest> {
    const digest = digestOf(bytes);
    const path = `/v2/${repository}/blobs/uploads/?digest=${digest}`;
    const body = new Uint8Array(Buffer.from(bytes));
    assert.equal((await send("POST", path, { body })).status, 201);
    return digest;
  }

  async function begin(repository: string, query = ""): Promise<string> {
    const response = await send("POST", `/v2/${repository}/blobs/uploads/${query}`);
    assert.equal(response.status, 202);
    return response.headers.get("location") ?? "";
  }

  async function putManifest(repository: string, reference: string, fields: object = {}) {
    await push(repository, "{}");
    const isIndex = "manifests" in fields;
    const own = isIndex ? {} : { config: EMPTY, layers: [] };
    const body = JSON.stringify({ schemaVersion: 2, ...own, ...fields });
    const mediaType = isIndex ? MEDIA_TYPES.index : MEDIA_TYPES.manifest;
    const headers = { "content-type": mediaType };
    const path = `/v2/${repository}/manifests/${reference}`;
    const response = await send("PUT", path, { headers, body });
    return { response, digest: digestOf(body), body };
  }
}

/** Every file with content or links; directories without files do not count, nor does the lock. */
export async function filesOf({ directory }: OpenRegistry): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && entry.name !== "lock")
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

/** The code of an error, from a body that has the form the specification gives it. */
export async function errorCode(response: Response): Promise<string> {
  assert.equal(response.headers.get("content-type"), "application/json");
  const { errors } = (await response.json()) as { errors: { code: string; message: string }[] };
  assert.equal(errors.length, 1);
  assert.notEqual(errors[0]?.message, "");
  return errors[0]?.code ?? "";
}

export async function jsonOf<T>(response: Response): Promise<T> {
  return (await response.json()) as T;
}

/** Where a list goes on, from its Link header. */
export function nextOf(response: Response): string | undefined {
  return /<(.*)>; rel="next"/.exec(response.headers.get("link") ?? "")?.[1];
}
