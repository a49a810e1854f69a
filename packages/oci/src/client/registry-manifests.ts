// The part of a registry that is about manifests: what they are called, and what refers to them.

import type { IncomingMessage } from "node:http";
import { Digest, Failure } from "@exclave/core";
import { z } from "zod";
import {
  type ContentStore,
  checkRepository,
  checkTag,
  isDigest,
  manifestDigest,
  missing,
} from "../content/content-store.ts";
import { ImageIndex, MEDIA_TYPES, parseManifest, subjectOf } from "../content/descriptor.ts";
import { createReferrersIndex } from "./referrers-index.ts";
import type { RegistryHttp } from "./registry-http.ts";
import { readRegistryList } from "./registry-list.ts";

export type RegistryManifests = Pick<
  ContentStore,
  "headManifest" | "readManifest" | "writeManifest" | "tags" | "referrers"
>;

const MANIFEST_BYTES_MAX = 4 * 1024 * 1024;
const ACCEPT = [
  MEDIA_TYPES.manifest,
  MEDIA_TYPES.index,
  MEDIA_TYPES.dockerManifest,
  MEDIA_TYPES.dockerIndex,
].join(", ");
const TagList = z.object({ tags: z.array(z.string()).nullish() });

export function createRegistryManifests(http: RegistryHttp): RegistryManifests {
  const manifests: RegistryManifests = {
    async headManifest(repository, reference, { signal, verify = false } = {}) {
      const path = `${root(repository)}/manifests/${reference}${verify ? "?verify=true" : ""}`;
      const headers = { accept: ACCEPT };
      const accept = [200, 404];
      const response = await http.ask({ method: "HEAD", path, headers, accept, signal });
      if (response.statusCode === 404) return undefined;
      const digest = isDigest(reference) ? reference : saidDigest(response);
      if (digest === undefined) return headByReading(repository, reference, signal);
      const size = Number(response.headers["content-length"] ?? Number.NaN);
      return { digest, mediaType: mediaTypeOf(response), size };
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
      const bytes = await http.readAll(response, MANIFEST_BYTES_MAX);
      const expected = isDigest(reference) ? reference : saidDigest(response);
      const digest = manifestDigest(bytes, expected);
      return { bytes, mediaType: mediaTypeOf(response), digest };
    },

    async writeManifest(repository, bytes, mediaType, tag, { digest: expected, signal } = {}) {
      if (tag !== undefined) checkTag(tag);
      const digest = manifestDigest(bytes, expected);
      const put = async (reference: string) => {
        const path = `${root(repository)}/manifests/${reference}`;
        const headers = { "content-type": mediaType };
        const request = { path, headers, body: bytes, accept: [201], signal };
        return http.ask({ method: "PUT", ...request }).catch(explain);
      };

      const response = await put(tag === undefined ? digest : tagged(digest, tag));
      // A registry that does not know how to tag by the way is asked for it alone.
      const isTagged = tag === undefined || isNamedByTag(digest) || "oci-tag" in response.headers;
      if (!isTagged) await put(tag);

      if (response.headers["oci-subject"] === undefined) {
        const parsed = parseManifest(bytes, mediaType);
        const subject = subjectOf(parsed)?.digest;
        const referrer = { parsed, digest, mediaType, size: bytes.length };
        if (subject) await referrersIndex.add(repository, subject, referrer, signal);
      }
      return digest;
    },

    async tags(repository, { signal } = {}) {
      const { entries, end } = await readRegistryList(http, {
        path: `${root(repository)}/tags/list`,
        schema: TagList,
        entriesOf: ({ tags }) => tags ?? [],
        absent: [404],
        signal,
      });
      if (end === "unreadable") throw unreadable(`a list of the tags of ${repository}`);
      return entries.sort();
    },

    async referrers(repository, digest, { artifactType, signal } = {}) {
      const query =
        artifactType === undefined ? "" : `?${new URLSearchParams({ artifactType }).toString()}`;
      const { entries, end } = await readRegistryList(http, {
        path: `${root(repository)}/referrers/${digest}${query}`,
        schema: ImageIndex,
        entriesOf: ({ manifests }) => manifests,
        absent: [404, 405],
        signal,
      });
      // Who answers with something else, such as a page for people, knows no referrers either.
      const knowsReferrers = end === "last page";
      const found = knowsReferrers
        ? entries
        : await referrersIndex.list(repository, digest, signal);
      // Filtering is the registry's choice (distribution specification), so it is done here too.
      return found.filter((entry) => !artifactType || entry.artifactType === artifactType);
    },
  };
  const referrersIndex = createReferrersIndex(manifests);
  return manifests;

  /** For registries that do not say what a tag stands for unless it is read. */
  async function headByReading(repository: string, tag: string, signal: AbortSignal | undefined) {
    const { bytes, mediaType, digest } = await manifests.readManifest(repository, tag, { signal });
    return { digest, mediaType, size: bytes.length };
  }
}

function unreadable(what: string): Failure {
  return new Failure("unavailable", `the registry did not answer with ${what}`, {
    details: { isPermanent: true },
  });
}

export function root(repository: string): string {
  checkRepository(repository);
  return `/v2/${repository}`;
}

/** What is put under a tag gets a sha256; for another digest the tag has to come along with it. */
function tagged(digest: Digest, tag: string): string {
  if (isNamedByTag(digest)) return tag;
  return `${digest}?${new URLSearchParams({ tag }).toString()}`;
}

function isNamedByTag(digest: Digest): boolean {
  return digest.startsWith("sha256:");
}

/** Registries answer 400 or 404 to a manifest whose blobs are missing; what it means is the same. */
function explain(reason: unknown): never {
  if (!(reason instanceof Failure)) throw reason;
  if (reason.details["registryCode"] !== "MANIFEST_BLOB_UNKNOWN") throw reason;
  throw new Failure("not_found", reason.message, { cause: reason, details: reason.details });
}

function saidDigest(response: IncomingMessage): Digest | undefined {
  return Digest.safeParse(response.headers["docker-content-digest"]).data;
}

function mediaTypeOf(response: IncomingMessage): string {
  return response.headers["content-type"]?.split(";")[0]?.trim() ?? MEDIA_TYPES.manifest;
}
