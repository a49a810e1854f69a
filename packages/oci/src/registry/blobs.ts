// Blobs: reading them, and the ways of bringing one in (distribution specification, pushing blobs).

import type { Digest } from "@exclave/core";
import { splitDigest } from "../content/digest.ts";
import { answer, type Exchange } from "./exchange.ts";
import { answerRange } from "./http-range.ts";
import { RegistryError } from "./registry-error.ts";
import { checkName, readDigest } from "./route.ts";
import type { Algorithm } from "./upload/file-hash.ts";
import type { OwnUpload, Upload } from "./upload/uploads.ts";

export async function handleBlob(exchange: Exchange, repository: string, digest: Digest) {
  const { request, response, files } = exchange;
  if (request.method === "DELETE") {
    if (!(await files.unlinkBlob(repository, digest))) throw unknownBlob(digest);
    return answer(response, 202);
  }
  if (request.method !== "GET" && request.method !== "HEAD") throw unsupported();

  const size = await files.headBlob(repository, digest);
  if (size === undefined) throw unknownBlob(digest);
  // A range is for GET only (RFC 9110, 14.2).
  const asked = request.method === "GET" ? request.headers.range : undefined;
  const range = answerRange(asked, size);
  const headers = {
    "content-type": "application/octet-stream",
    "docker-content-digest": digest,
    "accept-ranges": "bytes",
    etag: `"${digest}"`,
  };
  if (range.kind === "unsatisfiable") {
    throw new RegistryError("SIZE_INVALID", `the blob has ${size} bytes`, {
      status: 416,
      headers: { "content-range": `bytes */${size}` },
    });
  }
  const { from, to } = range.kind === "part" ? range : { from: 0, to: size - 1 };
  const part = range.kind === "part" ? { "content-range": `bytes ${from}-${to}/${size}` } : {};
  response.writeHead(range.kind === "part" ? 206 : 200, {
    ...headers,
    ...part,
    "content-length": to - from + 1,
  });
  if (request.method === "HEAD" || size === 0) {
    response.end();
    return;
  }
  await files.blobs.send(response, digest, { from, to });
}

/** POST: mounts, takes a whole blob at once, or opens an upload. */
export async function handleUploads(exchange: Exchange, repository: string): Promise<void> {
  const { request, query, uploads } = exchange;
  if (request.method !== "POST") throw unsupported();

  const mount = query.get("mount");
  if (mount !== null) {
    const digest = readDigest(mount);
    if (await mountBlob(exchange, repository, digest, query.get("from"))) {
      return answerCreated(exchange, repository, digest);
    }
  }
  const whole = query.get("digest");
  const digest = whole === null ? undefined : readDigest(whole);
  await uploads.dropIdle();
  const upload = await uploads.begin(repository, readAlgorithm(query, digest));
  if (digest === undefined) return answerUpload(exchange, upload, 202);
  await uploads.take(repository, upload.id, async (own) => {
    try {
      await own.append(request);
    } catch (reason) {
      await own.cancel();
      throw reason;
    }
    await finish(exchange, own, digest);
  });
}

/** An upload that is open: more bytes, the last ones, how far it is, or its end. */
export async function handleUpload(exchange: Exchange, repository: string, id: string) {
  const { request, uploads } = exchange;
  switch (request.method) {
    case "GET":
      return answerUpload(exchange, await uploads.find(repository, id), 204);
    case "PATCH":
    case "PUT":
    case "DELETE":
      return uploads.take(repository, id, (upload) => changeUpload(exchange, upload));
    default:
      throw unsupported();
  }
}

async function changeUpload(exchange: Exchange, upload: OwnUpload): Promise<void> {
  const { request, response, query } = exchange;
  if (request.method === "DELETE") {
    await upload.cancel();
    return answer(response, 204);
  }
  const digest = request.method === "PUT" ? readDigest(query.get("digest") ?? "") : undefined;
  checkPlace(exchange, upload);
  await upload.append(request);
  if (digest === undefined) return answerUpload(exchange, upload, 202);
  await finish(exchange, upload, digest);
}

async function finish(exchange: Exchange, upload: OwnUpload, digest: Digest): Promise<void> {
  const { files } = exchange;
  await upload.finish(digest, (file) => files.keepBlob(upload.repository, digest, file));
  answerCreated(exchange, upload.repository, digest);
}

/** What the bytes will be known by, when the client says so ahead of them. */
function readAlgorithm(query: URLSearchParams, digest: Digest | undefined): Algorithm {
  const named = query.get("digest-algorithm");
  if (digest !== undefined) return splitDigest(digest).algorithm;
  if (named === null || named === "sha256" || named === "sha512") return named ?? "sha256";
  throw new RegistryError("DIGEST_INVALID", `${named} is not an algorithm this registry knows`);
}

/** Without `from`, any repository the caller may read is as good as another. */
async function mountBlob(
  { files, caller }: Exchange,
  repository: string,
  digest: Digest,
  from: string | null,
): Promise<boolean> {
  if (caller.digests) return false;
  if (from !== null) {
    checkName(from);
    return caller.mayDo(from, "pull") && files.mountBlob(from, repository, digest);
  }
  for (const candidate of caller.pullsFrom ?? (await files.repositories())) {
    if (await files.mountBlob(candidate, repository, digest)) return true;
  }
  return false;
}

/** A chunk says where it belongs; anywhere but at the end of what is here, it is out of order. */
function checkPlace({ request }: Exchange, upload: Upload): void {
  const header = request.headers["content-range"];
  if (header === undefined) return;
  const found = /^(?:bytes )?(\d+)-(\d+)(?:\/.*)?$/.exec(header);
  const [from, to] = [Number(found?.[1]), Number(found?.[2])];
  const length = request.headers["content-length"];
  const isWhole = length === undefined || Number(length) === to - from + 1;
  if (!found || from !== upload.size || !isWhole) {
    throw new RegistryError("BLOB_UPLOAD_INVALID", `the next byte is ${upload.size}`, {
      status: 416,
      headers: { location: uploadPath(upload), range: receivedRange(upload) },
    });
  }
}

function answerUpload({ response }: Exchange, upload: Upload, status: number): void {
  answer(response, status, {
    location: uploadPath(upload),
    range: receivedRange(upload),
    "docker-upload-uuid": upload.id,
  });
}

function answerCreated({ response }: Exchange, repository: string, digest: Digest): void {
  const location = `/v2/${repository}/blobs/${digest}`;
  answer(response, 201, { location, "docker-content-digest": digest });
}

function uploadPath({ repository, id }: Upload): string {
  return `/v2/${repository}/blobs/uploads/${id}`;
}

/** The form has no way to say "nothing": an empty upload reads as if it had its first byte. */
function receivedRange({ size }: Upload): string {
  return `0-${Math.max(size - 1, 0)}`;
}

function unknownBlob(digest: Digest): RegistryError {
  return new RegistryError("BLOB_UNKNOWN", `there is no blob ${digest} here`);
}

export function unsupported(): RegistryError {
  return new RegistryError("UNSUPPORTED", "this cannot be done here");
}
