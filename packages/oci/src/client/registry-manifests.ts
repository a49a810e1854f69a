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

export type RegistryManifests = Pick<
  ContentStore,
  "headManifest" | "readManifest" | "writeManifest" | "tags" | "referrers"
>;

const PAGES_MAX = 1_000;
const ENTRIES_MAX = 100_000;
const MANIFEST_BYTES_MAX = 4 * 1024 * 1024;
const ACCEPT = [
  MEDIA_TYPES.manifest,
  MEDIA_TYPES.index,
  MEDIA_TYPES.dockerManifest,
  MEDIA_TYPES.dockerIndex,
].join(", ");
const TagList = z.object({ tags: z.array(z.string()).nullish() });
type TagList = z.infer<typeof TagList>;

/** A part of a list, and where the next one is. */
type Page<T> = { readonly value: T; readonly next: URL | undefined } | "absent" | "unreadable";

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
      const tags: string[] = [];
      let path: string | URL | undefined = `${root(repository)}/tags/list`;
      for (let pages = 1; path !== undefined; pages++) {
        checkLength(pages, tags.length);
        const page: Page<TagList> = await readPage(path, TagList, [404], signal);
        if (page === "absent") break;
        if (page === "unreadable") throw unreadable(`a list of the tags of ${repository}`);
        tags.push(...(page.value.tags ?? []));
        path = page.next;
      }
      return tags.sort();
    },

    async referrers(repository, digest, { artifactType, signal } = {}) {
      const found = [];
      const query =
        artifactType === undefined ? "" : `?${new URLSearchParams({ artifactType }).toString()}`;
      let path: string | URL | undefined = `${root(repository)}/referrers/${digest}${query}`;
      for (let pages = 1; path !== undefined; pages++) {
        checkLength(pages, found.length);
        const page: Page<ImageIndex> = await readPage(path, ImageIndex, [404, 405], signal);
        // Who answers with something else, such as a page for people, knows no referrers either.
        if (page === "absent" || page === "unreadable") {
          const listed = await referrersIndex.list(repository, digest, signal);
          return listed.filter((entry) => !artifactType || entry.artifactType === artifactType);
        }
        found.push(...page.value.manifests);
        path = page.next;
      }
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

  async function readPage<T>(
    path: string | URL,
    schema: z.ZodType<T>,
    absent: readonly number[],
    signal: AbortSignal | undefined,
  ): Promise<Page<T>> {
    const response = await http.send({ method: "GET", path, accept: [200, ...absent], signal });
    const bytes = await http.readAll(response, MANIFEST_BYTES_MAX);
    if (response.statusCode !== 200) return "absent";
    const page = schema.safeParse(parseJson(bytes));
    if (!page.success) return "unreadable";
    const link = /<([^>]+)>;\s*rel="?next"?/.exec(String(response.headers["link"] ?? ""));
    // Like a redirect: it leads only where this registry may send us.
    return { value: page.data, next: link ? http.resolve(link[1]) : undefined };
  }

  /** A list whose pages lead to ever new ones, or in circles, has an end here. */
  function checkLength(pages: number, entries: number): void {
    if (pages <= PAGES_MAX && entries <= ENTRIES_MAX) return;
    throw new Failure("too_large", `a list of the registry has no end after ${entries} entries`);
  }
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString("utf8")) as unknown;
  } catch {
    return undefined;
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
