// A registry, reached over HTTP, as a content store. Works with any OCI Distribution registry.

import type { IncomingMessage } from "node:http";
import { Digest, Failure } from "@exclave/core";
import { z } from "zod";
import {
  type ContentStore,
  checkRepository,
  checkTag,
  isDigest,
  isMissing,
  type ManifestHead,
  missing,
} from "./content-store.ts";
import { ImageIndex, MEDIA_TYPES } from "./descriptor.ts";
import { collect, createVerifier, digestOf } from "./digest.ts";
import {
  createRegistryHttp,
  isTransient,
  type RegistryHttpOptions,
  unreachableFailure,
} from "./registry-http.ts";
import { uploadBlob } from "./registry-upload.ts";

export interface RegistryClient extends ContentStore {
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

    async writeBlob(repository, descriptor, source, { signal } = {}) {
      const path = `${root(repository)}/blobs/`;
      const isThere = async () =>
        (await client.headBlob(repository, descriptor.digest, { signal })) !== undefined;
      if (await isThere()) return;
      await uploadBlob({ http, path, descriptor, source, signal, isThere });
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
        await http.ask({ method: "PUT", path, headers, body: bytes, accept: [201], signal });
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
      const query = new URLSearchParams({ mount: digest, from });
      const path = `${root(to)}/blobs/uploads/?${query.toString()}`;
      const response = await http.ask({ method: "POST", path, accept: [201, 202], signal });
      if (response.statusCode === 201) return true;
      // It opened an upload instead, which nobody is going to use.
      const upload = http.resolve(response.headers.location);
      await http.ask({ method: "DELETE", path: upload, accept: [204, 404, 405], signal });
      return false;
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
        if (!response) return fallbackReferrers(repository, digest, artifactType, signal);
        found.push(...ImageIndex.parse(response.value).manifests);
        path = response.next;
      }
      // Filtering is the registry's choice (distribution specification), so it is done here too.
      return found.filter((entry) => !artifactType || entry.artifactType === artifactType);
    },

    close: () => http.close(),
  };
  return client;

  /** Registries without the referrers API keep an index under a tag made of the digest. */
  async function fallbackReferrers(
    repository: string,
    digest: Digest,
    artifactType: string | undefined,
    signal: AbortSignal | undefined,
  ) {
    try {
      const { bytes } = await client.readManifest(repository, digest.replace(":", "-"), { signal });
      const { manifests } = ImageIndex.parse(JSON.parse(Buffer.from(bytes).toString("utf8")));
      return manifests.filter((entry) => !artifactType || entry.artifactType === artifactType);
    } catch (reason) {
      if (isMissing(reason)) return [];
      throw reason;
    }
  }

  async function readJson(path: string, signal: AbortSignal | undefined) {
    const response = await http.send({ method: "GET", path, accept: [200, 404], signal });
    const bytes = await collect(response, MANIFEST_BYTES_MAX);
    if (response.statusCode === 404) return undefined;
    const link = /<([^>]+)>;\s*rel="?next"?/.exec(String(response.headers["link"] ?? ""));
    return { value: JSON.parse(Buffer.from(bytes).toString("utf8")) as unknown, next: link?.[1] };
  }
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
