// A registry, reached over HTTP, as a content store. Works with any OCI Distribution registry.

import type { IncomingMessage } from "node:http";
import { Digest, Failure } from "@exclave/core";
import { z } from "zod";
import {
  type ContentStore,
  checkRepository,
  checkTag,
  isDigest,
  type ManifestHead,
  missing,
  type Waiting,
} from "./content-store.ts";
import {
  type Descriptor,
  ImageIndex,
  MEDIA_TYPES,
  parseManifest,
  subjectOf,
} from "./descriptor.ts";
import { collect, createVerifier, digestOf, openSource } from "./digest.ts";
import type { Sink } from "./raw-download.ts";
import { createReferrersIndex } from "./referrers-index.ts";
import { isTransient, unreachableFailure } from "./registry-failure.ts";
import { createRegistryHttp, type RegistryHttpOptions } from "./registry-http.ts";
import { createMounts } from "./registry-mounts.ts";
import { uploadBlob } from "./registry-upload.ts";

export interface RegistryClient extends ContentStore {
  /**
   * Like `readBlob`, over a socket of its own and with one buffer that is used again: a chunk is
   * only good until the sink is done with it.
   */
  pourBlob(
    repository: string,
    digest: Digest,
    sink: Sink,
    options?: Waiting & { readonly from?: number },
  ): Promise<void>;

  /**
   * Brings in a blob that is known not to be here: from another repository of this registry if it
   * can be had there, else by letting `pour` hand over its bytes, as often as it takes.
   */
  bringBlob(
    repository: string,
    descriptor: Pick<Descriptor, "digest" | "size">,
    pour: (from: number, sink: Sink) => Promise<void>,
    options?: Waiting & { readonly mountFrom?: readonly string[] },
  ): Promise<"copied" | "mounted">;

  /** Calls back whenever the registry says that this is too much for it; returns how to stop. */
  onThrottle(listener: () => void): () => void;

  /** Requests sent since the client was made. */
  readonly requests: number;

  /** Lets go of kept-alive connections. */
  close(): void;
}

const MANIFEST_BYTES_MAX = 4 * 1024 * 1024;
const ACCEPT = [
  MEDIA_TYPES.manifest,
  MEDIA_TYPES.index,
  MEDIA_TYPES.dockerManifest,
  MEDIA_TYPES.dockerIndex,
].join(", ");
const TagList = z.object({ tags: z.array(z.string()).nullish() });

export function isRegistryClient(store: ContentStore): store is RegistryClient {
  return "pourBlob" in store && "bringBlob" in store;
}

export function createRegistryClient(options: RegistryHttpOptions): RegistryClient {
  const http = createRegistryHttp(options);
  const base = new URL(options.url);

  const client: RegistryClient = {
    async headBlob(repository, digest, { signal } = {}) {
      const path = `${root(repository)}/blobs/${digest}`;
      const response = await http.ask({ method: "HEAD", path, accept: [200, 404], signal });
      if (response.statusCode === 404) return undefined;
      return Number(response.headers["content-length"] ?? Number.NaN);
    },

    async headManifest(repository, reference, { signal } = {}) {
      const path = `${root(repository)}/manifests/${reference}`;
      const headers = { accept: ACCEPT };
      const response = await http.ask({
        method: "HEAD",
        path,
        headers,
        accept: [200, 404],
        signal,
      });
      if (response.statusCode === 404) return undefined;
      return readHead(response, reference);
    },

    async *readBlob(repository, digest, { from = 0, signal } = {}) {
      const path = `${root(repository)}/blobs/${digest}`;
      let at = from;
      let attempt = 1;
      for (;;) {
        try {
          const headers: Record<string, string> = at > 0 ? { range: `bytes=${at}-` } : {};
          const accept = at > 0 ? [200, 206, 404, 416] : [200, 404];
          const response = await http.send({ method: "GET", path, headers, accept, signal });
          if (response.statusCode === 404) {
            response.resume();
            throw missing(`blob ${digest}`, repository);
          }
          if (response.statusCode === 416) {
            response.resume();
            return;
          }
          // A registry that knows no ranges sends everything: pass over what we have.
          let skip = response.statusCode === 206 ? 0 : at;
          for await (const chunk of response as AsyncIterable<Buffer>) {
            const fresh = chunk.subarray(skip);
            skip -= chunk.length - fresh.length;
            if (fresh.length === 0) continue;
            at += fresh.length;
            attempt = 1;
            yield fresh;
          }
          return;
        } catch (thrown) {
          const reason = unreachableFailure(thrown, base, signal);
          if (attempt >= http.attemptsMax || !isTransient(reason)) throw reason;
          await http.pauseBefore(++attempt, reason, signal);
        }
      }
    },

    async pourBlob(repository, digest, sink, { from = 0, signal } = {}) {
      const path = `${root(repository)}/blobs/${digest}`;
      let at = from;
      let isSinkBroken = false;
      const take = async (chunk: Uint8Array): Promise<void> => {
        try {
          await sink(chunk);
        } catch (reason) {
          isSinkBroken = true;
          throw reason;
        }
        at += chunk.length;
      };
      for (let attempt = 1; ; attempt++) {
        const begunAt = at;
        try {
          const headers: Record<string, string> = at > 0 ? { range: `bytes=${at}-` } : {};
          const accept = at > 0 ? [200, 206, 404, 416] : [200, 404];
          const status = await http.download({ path, headers, accept, signal }, (answered) => {
            // Only a body with content is the blob's; without ranges it comes from its beginning.
            if (answered !== 200 && answered !== 206) return async () => undefined;
            return answered === 206 ? take : after(at, take);
          });
          if (status === 404) throw missing(`blob ${digest}`, repository);
          return;
        } catch (thrown) {
          const reason = unreachableFailure(thrown, base, signal);
          if (at > begunAt) attempt = 1;
          if (isSinkBroken || attempt >= http.attemptsMax || !isTransient(reason)) throw reason;
          await http.pauseBefore(attempt + 1, reason, signal);
        }
      }
    },

    async writeBlob(repository, descriptor, source, { signal } = {}) {
      const upload = uploadTo(repository, descriptor, signal);
      if (await upload.isThere()) return;
      const pour = async (from: number, sink: Sink) => {
        for await (const chunk of openSource(source, from)) await sink(chunk);
      };
      await uploadBlob({ ...upload, pour, canResume: typeof source === "function" });
    },

    async bringBlob(repository, descriptor, pour, { signal, mountFrom = [] } = {}) {
      const { digest } = descriptor;
      const location = await mounts.find(repository, digest, mountFrom, signal);
      if (location === "mounted") return "mounted";
      const upload = uploadTo(repository, descriptor, signal);
      await uploadBlob({ ...upload, pour, canResume: true, location });
      return "copied";
    },

    async readManifest(repository, reference, { signal } = {}) {
      const path = `${root(repository)}/manifests/${reference}`;
      const headers = { accept: ACCEPT };
      const accept = [200, 404];
      const response = await http.send({ method: "GET", path, headers, accept, signal });
      if (response.statusCode === 404) {
        response.resume();
        throw missing(`manifest ${reference}`, repository);
      }
      const bytes = await collect(response, MANIFEST_BYTES_MAX);
      if (isDigest(reference)) {
        const verifier = createVerifier({ digest: reference });
        verifier.update(bytes, 0);
        verifier.finish();
      }
      const digest = isDigest(reference) ? reference : digestOf(bytes);
      return { bytes, mediaType: mediaTypeOf(response), digest };
    },

    async writeManifest(repository, bytes, mediaType, tag, { signal } = {}) {
      if (tag !== undefined) checkTag(tag);
      const digest = digestOf(bytes);
      const path = `${root(repository)}/manifests/${tag ?? digest}`;
      const headers = { "content-type": mediaType };
      try {
        const request = { path, headers, body: bytes, accept: [201], signal };
        const response = await http.ask({ method: "PUT", ...request });
        if (response.headers["oci-subject"] === undefined) {
          const parsed = parseManifest(bytes, mediaType);
          const subject = subjectOf(parsed);
          if (subject)
            await referrersIndex.add(
              repository,
              subject.digest,
              { parsed, digest, mediaType, size: bytes.length },
              signal,
            );
        }
      } catch (reason) {
        // Registries answer 400 or 404 here; what it means is the same.
        if (!(reason instanceof Failure)) throw reason;
        if (reason.details["registryCode"] !== "MANIFEST_BLOB_UNKNOWN") throw reason;
        throw new Failure("not_found", reason.message, { cause: reason });
      }
      return digest;
    },

    async mountBlob(from, to, digest, { signal } = {}) {
      checkRepository(from);
      return (await mounts.from(from, to, digest, signal)) === "mounted";
    },

    async tags(repository, { signal } = {}) {
      const tags: string[] = [];
      let path: string | undefined = `${root(repository)}/tags/list`;
      while (path !== undefined) {
        const response = await readJson(path, signal);
        if (!response) break;
        tags.push(...(TagList.parse(response.value).tags ?? []));
        path = response.next;
      }
      return tags.sort();
    },

    async referrers(repository, digest, { artifactType, signal } = {}) {
      const found = [];
      const query =
        artifactType === undefined ? "" : `?${new URLSearchParams({ artifactType }).toString()}`;
      let path: string | undefined = `${root(repository)}/referrers/${digest}${query}`;
      while (path !== undefined) {
        const response = await readJson(path, signal);
        if (!response) {
          const listed = await referrersIndex.list(repository, digest, signal);
          return listed.filter((entry) => !artifactType || entry.artifactType === artifactType);
        }
        found.push(...ImageIndex.parse(response.value).manifests);
        path = response.next;
      }
      // Filtering is the registry's choice (distribution specification), so it is done here too.
      return found.filter((entry) => !artifactType || entry.artifactType === artifactType);
    },

    onThrottle: (listener) => http.onThrottle(listener),
    get requests() {
      return http.requests;
    },
    close: () => http.close(),
  };
  const referrersIndex = createReferrersIndex(client);
  const mounts = createMounts(http, client);
  return client;

  function uploadTo(
    repository: string,
    descriptor: Pick<Descriptor, "digest" | "size">,
    signal: AbortSignal | undefined,
  ) {
    const path = `${root(repository)}/blobs/`;
    const isThere = async () =>
      (await client.headBlob(repository, descriptor.digest, { signal })) !== undefined;
    return { http, path, descriptor, signal, isThere };
  }

  async function readJson(path: string, signal: AbortSignal | undefined) {
    const response = await http.send({ method: "GET", path, accept: [200, 404], signal });
    const bytes = await collect(response, MANIFEST_BYTES_MAX);
    if (response.statusCode === 404) return undefined;
    const link = /<([^>]+)>;\s*rel="?next"?/.exec(String(response.headers["link"] ?? ""));
    return { value: JSON.parse(Buffer.from(bytes).toString("utf8")) as unknown, next: link?.[1] };
  }
}

/** Passes over the first bytes. */
function after(count: number, sink: Sink): Sink {
  let skip = count;
  return async (chunk) => {
    const fresh = chunk.subarray(skip);
    skip -= chunk.length - fresh.length;
    if (fresh.length > 0) await sink(fresh);
  };
}

function root(repository: string): string {
  checkRepository(repository);
  return `/v2/${repository}`;
}

function readHead(response: IncomingMessage, reference: string): ManifestHead {
  const said = response.headers["docker-content-digest"] ?? reference;
  const digest = isDigest(reference) ? reference : Digest.parse(said);
  const size = Number(response.headers["content-length"] ?? Number.NaN);
  return { digest, mediaType: mediaTypeOf(response), size };
}

function mediaTypeOf(response: IncomingMessage): string {
  return response.headers["content-type"]?.split(";")[0]?.trim() ?? MEDIA_TYPES.manifest;
}
