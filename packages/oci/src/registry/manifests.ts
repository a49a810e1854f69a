// Manifests, tags and referrers.

import { createHash } from "node:crypto";
import type { Digest } from "@exclave/core";
import { Failure } from "@exclave/core";
import { isDigest, isMissing } from "../content/content-store.ts";
import {
  acceptManifest,
  type Descriptor,
  MEDIA_TYPES,
  manifestTypeOf,
  Tag,
} from "../content/descriptor.ts";
import { collect, hasDigest, splitDigest } from "../content/digest.ts";
import { unsupported } from "./blobs.ts";
import { answer, answerJson, bodyOf, type Exchange } from "./exchange.ts";
import { RegistryError } from "./registry-error.ts";

const MANIFEST_BYTES_MAX = 4 * 1024 * 1024;
/** Below what clients take for a manifest, with room for what surrounds the entries. */
const REFERRERS_BYTES_MAX = 3 * 1024 * 1024;

export async function handleManifest(exchange: Exchange, repository: string, reference: string) {
  switch (exchange.request.method) {
    case "GET":
    case "HEAD":
      return read(exchange, repository, reference);
    case "PUT":
      return write(exchange, repository, reference);
    case "DELETE":
      return remove(exchange, repository, reference);
    default:
      throw unsupported();
  }
}

async function read(exchange: Exchange, repository: string, reference: string) {
  const { response, files, query, quarantine } = exchange;
  const head = await files.headManifest(repository, reference);
  if (!head) throw unknownManifest(reference);
  const isDoubted = query.get("verify") === "true" && response.req.method === "HEAD";
  if (isDoubted && !(await quarantine.verify(repository, head.digest))) {
    throw unknownManifest(reference);
  }
  const headers = {
    "content-type": head.mediaType,
    "docker-content-digest": head.digest,
    etag: `"${head.digest}"`,
  };
  if (response.req.method === "HEAD") {
    return answer(response, 200, { ...headers, "content-length": head.size });
  }
  const { bytes } = await files.readManifest(repository, head.digest);
  if (!hasDigest(bytes, head.digest)) {
    await quarantine.isolate(head.digest);
    throw unknownManifest(reference);
  }
  answer(response, 200, headers, bytes);
}

async function write(exchange: Exchange, repository: string, reference: string): Promise<void> {
  const { request, response, query, files, mayLackBlobs } = exchange;
  const bytes = await receive(exchange);
  const mediaType = readType(bytes, request.headers["content-type"]);
  const algorithm = isDigest(reference) ? splitDigest(reference).algorithm : "sha256";
  const digest = `${algorithm}:${createHash(algorithm).update(bytes).digest("hex")}` as Digest;
  if (isDigest(reference) && digest !== reference) {
    throw new RegistryError("DIGEST_INVALID", `the bytes are ${digest}, not ${reference}`);
  }
  const tags = isDigest(reference) ? query.getAll("tag") : [reference];
  const wrong = tags.find((tag) => !Tag.safeParse(tag).success);
  if (wrong !== undefined) throw new RegistryError("TAG_INVALID", `${wrong} cannot be a tag`);

  const subject = await files
    .putManifest(repository, { bytes, mediaType, digest }, tags, { mayLackBlobs })
    .catch(explain);
  answer(response, 201, {
    location: `/v2/${repository}/manifests/${digest}`,
    "docker-content-digest": digest,
    ...(subject === undefined ? {} : { "oci-subject": subject }),
    ...(isDigest(reference) && tags.length > 0 ? { "oci-tag": tags.join(", ") } : {}),
  });
}

async function remove({ response, files }: Exchange, repository: string, reference: string) {
  const isGone = isDigest(reference)
    ? await files.unlinkManifest(repository, reference)
    : await files.untag(repository, reference);
  if (!isGone) throw unknownManifest(reference);
  answer(response, 202);
}

export async function handleTags(exchange: Exchange, repository: string): Promise<void> {
  const { response, query, caller, files } = exchange;
  if (caller.digests) throw new RegistryError("DENIED", "the token opens digests, not tags");
  if (!(await files.hasRepository(repository))) {
    throw new RegistryError("NAME_UNKNOWN", `there is no repository ${repository}`);
  }
  const last = query.get("last");
  const all = (await files.tags(repository)).filter((tag) => last === null || tag > last);
  const limit = readLimit(query) ?? all.length;
  const tags = all.slice(0, limit);
  const end = tags.at(-1);
  const next = `/v2/${repository}/tags/list?n=${limit}&last=${encodeURIComponent(end ?? "")}`;
  const hasMore = end !== undefined && tags.length < all.length;
  answerJson(
    response,
    { name: repository, tags },
    hasMore ? { link: `<${next}>; rel="next"` } : {},
  );
}

export async function handleReferrers(exchange: Exchange, repository: string, digest: Digest) {
  const { response, query, files } = exchange;
  const artifactType = query.get("artifactType") || undefined;
  const last = query.get("last") ?? "";
  const rest = files.listReferrers(repository, digest, { artifactType, last });
  const { manifests, hasMore } = await pageOf(rest, readLimit(query));
  const end = manifests.at(-1)?.digest;
  const next = new URLSearchParams({
    ...(artifactType === undefined ? {} : { artifactType }),
    ...(query.get("n") === null ? {} : { n: String(readLimit(query)) }),
    last: end ?? "",
  });
  answerJson(
    response,
    { schemaVersion: 2, mediaType: MEDIA_TYPES.index, manifests },
    {
      "content-type": MEDIA_TYPES.index,
      ...(artifactType === undefined ? {} : { "oci-filters-applied": "artifactType" }),
      ...(hasMore
        ? { link: `</v2/${repository}/referrers/${digest}?${next.toString()}>; rel="next"` }
        : {}),
    },
  );
}

/** As many as were asked for, and no more than a client takes for an index. */
async function pageOf(entries: AsyncIterable<Descriptor>, limit = Number.POSITIVE_INFINITY) {
  const manifests: Descriptor[] = [];
  if (limit === 0) return { manifests, hasMore: false };
  let bytes = 0;
  for await (const entry of entries) {
    bytes += Buffer.byteLength(JSON.stringify(entry)) + 1;
    const isFull = manifests.length === limit || bytes > REFERRERS_BYTES_MAX;
    if (manifests.length > 0 && isFull) return { manifests, hasMore: true };
    manifests.push(entry);
  }
  return { manifests, hasMore: false };
}

function readLimit(query: URLSearchParams): number | undefined {
  const text = query.get("n");
  if (text === null) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new RegistryError("UNSUPPORTED", "n must be a whole number", { status: 400 });
}

async function receive({ request }: Exchange): Promise<Uint8Array> {
  try {
    return await collect(bodyOf(request), MANIFEST_BYTES_MAX);
  } catch (cause) {
    if (!(cause instanceof Failure) || cause.code !== "too_large") throw cause;
    throw new RegistryError(
      "MANIFEST_INVALID",
      `a manifest has at most ${MANIFEST_BYTES_MAX} bytes`,
      {
        status: 413,
      },
    );
  }
}

/** What a manifest is said to be, once it is known to be that. */
function readType(bytes: Uint8Array, contentType: string | undefined): string {
  try {
    const mediaType = contentType?.split(";")[0]?.trim() || manifestTypeOf(bytes);
    acceptManifest(bytes, mediaType);
    return mediaType;
  } catch (cause) {
    if (!(cause instanceof Failure)) throw cause;
    throw new RegistryError("MANIFEST_INVALID", cause.message, { cause });
  }
}

function explain(reason: unknown): never {
  if (!isMissing(reason)) throw reason;
  throw new RegistryError("MANIFEST_BLOB_UNKNOWN", (reason as Failure).message, { cause: reason });
}

function unknownManifest(reference: string): RegistryError {
  return new RegistryError("MANIFEST_UNKNOWN", `there is no manifest ${reference} here`);
}
