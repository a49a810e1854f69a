// Which thing of the registry a request is about, from its path alone.

import type { Digest } from "@exclave/core";
import { Digest as DigestSchema } from "@exclave/core";
import { RepositoryName, Tag } from "../content/descriptor.ts";
import { RegistryError } from "./registry-error.ts";

export type Route =
  | { readonly kind: "base" }
  | { readonly kind: "blob"; readonly repository: string; readonly digest: Digest }
  | { readonly kind: "uploads"; readonly repository: string }
  | { readonly kind: "upload"; readonly repository: string; readonly upload: string }
  | { readonly kind: "manifest"; readonly repository: string; readonly reference: string }
  | { readonly kind: "tags"; readonly repository: string }
  | { readonly kind: "referrers"; readonly repository: string; readonly digest: Digest };

const PATTERN =
  /^\/v2\/(?<name>.+)\/(?:(?<uploads>blobs\/uploads\/?)|blobs\/uploads\/(?<upload>[^/]+)|blobs\/(?<blob>[^/]+)|manifests\/(?<manifest>[^/]+)|(?<tags>tags\/list)|referrers\/(?<referrers>[^/]+))$/;

// biome-ignore format: a table reads as a table.
const METHODS: Readonly<Record<Route["kind"], readonly string[]>> = {
  base:      ["GET", "HEAD"],
  blob:      ["GET", "HEAD", "DELETE"],
  uploads:   ["POST"],
  upload:    ["GET", "PATCH", "PUT", "DELETE"],
  manifest:  ["GET", "HEAD", "PUT", "DELETE"],
  tags:      ["GET"],
  referrers: ["GET"],
};

/** Where a request goes: a path, with however many slashes it begins, or a whole address. */
export function parseTarget(target: string): URL {
  const url = URL.parse(target.startsWith("/") ? `http://registry${target}` : target);
  if (!url) throw nothingHere();
  return url;
}

export function parseRoute(path: string): Route {
  if (path === "/v2/" || path === "/v2") return { kind: "base" };
  const found = PATTERN.exec(path)?.groups;
  if (!found) throw nothingHere();

  const repository = found["name"] ?? "";
  checkName(repository);
  if (found["uploads"] !== undefined) return { kind: "uploads", repository };
  if (found["upload"] !== undefined) {
    return { kind: "upload", repository, upload: found["upload"] };
  }
  if (found["tags"] !== undefined) return { kind: "tags", repository };
  if (found["manifest"] !== undefined) {
    return { kind: "manifest", repository, reference: readReference(found["manifest"]) };
  }
  if (found["blob"] !== undefined) {
    return { kind: "blob", repository, digest: readDigest(found["blob"]) };
  }
  return { kind: "referrers", repository, digest: readDigest(found["referrers"] ?? "") };
}

export function checkMethod({ kind }: Route, method = ""): void {
  const allowed = METHODS[kind];
  if (allowed.includes(method)) return;
  const headers = { allow: allowed.join(", ") };
  throw new RegistryError("UNSUPPORTED", "this cannot be done here", { headers });
}

export function checkName(repository: string): void {
  if (RepositoryName.safeParse(repository).success) return;
  throw new RegistryError("NAME_INVALID", `${repository} cannot be the name of a repository`);
}

export function readDigest(text: string): Digest {
  const digest = DigestSchema.safeParse(unescapePath(text));
  if (!digest.success) throw new RegistryError("DIGEST_INVALID", `${text} is not a digest`);
  return digest.data;
}

function readReference(text: string): string {
  const reference = unescapePath(text);
  if (reference.includes(":")) return readDigest(reference);
  if (Tag.safeParse(reference).success) return reference;
  throw new RegistryError("MANIFEST_INVALID", `${reference} is neither a tag nor a digest`);
}

function nothingHere(): RegistryError {
  return new RegistryError("UNSUPPORTED", "there is nothing here", { status: 404 });
}

function unescapePath(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
