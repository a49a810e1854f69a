// Which thing of the registry a request is about, from its path alone.

import type { Digest } from "@exclave/core";
import { Digest as DigestSchema } from "@exclave/core";
import { RepositoryName, Tag } from "../descriptor.ts";
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

export function parseRoute(path: string): Route {
  if (path === "/v2/" || path === "/v2") return { kind: "base" };
  const found = PATTERN.exec(path)?.groups;
  if (!found) throw new RegistryError("UNSUPPORTED", "there is nothing here", { status: 404 });

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

function unescapePath(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
