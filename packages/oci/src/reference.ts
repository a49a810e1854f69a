// How people name content: in a registry, in a layout on disk, or in an archive of one.
//
//   registry.example.com/apps/crm:v1    registry.example.com/apps/crm@sha256:…
//   oci:DIRECTORY[:NAME]                oci-archive:FILE.tar[:NAME]

import { Failure } from "@exclave/core";
import { checkRepository, checkTag } from "./content-store.ts";
import { parseDigest } from "./digest.ts";

export type Reference =
  | {
      readonly kind: "registry";
      readonly host: string;
      readonly repository: string;
      readonly reference: string | undefined;
    }
  /** In a layout `name` is a tag, `repository:tag`, or a digest. */
  | {
      readonly kind: "layout" | "archive";
      readonly path: string;
      readonly name: string | undefined;
    };

export function parseReference(text: string): Reference {
  const [, scheme, rest = ""] = /^(oci|oci-archive):(.*)$/s.exec(text) ?? [];
  if (scheme !== undefined) return parsePath(scheme === "oci" ? "layout" : "archive", rest, text);

  const [, host, path = ""] =
    /^([^/]+)\/(.+)$/.exec(text.replace(/^(?:docker|oci):\/\//, "")) ?? [];
  if (host === undefined || !/[.:]|^localhost$/.test(host)) {
    throw new Failure("invalid", `${text} does not begin with the host of a registry`);
  }
  const [, repository = "", tag, digest] = /^([^:@]+)(?::([^:@]+))?(?:@(.+))?$/.exec(path) ?? [];
  checkRepository(repository);
  if (tag !== undefined) checkTag(tag);
  // A digest says exactly what is meant; a tag beside it is only for people.
  const reference = digest === undefined ? tag : parseDigest(digest);
  return { kind: "registry", host, repository, reference };
}

function parsePath(kind: "layout" | "archive", rest: string, text: string): Reference {
  // The path ends at the first colon, or at the `@` before a digest.
  const [, path = "", name, digest] = /^([^:@]+)(?::([^@]+))?(?:@(.+))?$/s.exec(rest) ?? [];
  if (path === "") throw new Failure("invalid", `${text} has no path`);
  return { kind, path, name: digest === undefined ? name : parseDigest(digest) };
}
