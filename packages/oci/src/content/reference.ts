// How people name content: in a registry, in a layout on disk, or in an archive of one.
//
//   registry.example.com/apps/crm:v1    registry.example.com/apps/crm@sha256:…
//   http://… and https://… say how a registry is spoken to; docker://… and oci://… only that it is one
//   oci:DIRECTORY[:NAME]                oci-archive:FILE.tar[:NAME]

import { type Digest, Failure } from "@exclave/core";
import { checkRepository, checkTag } from "./content-store.ts";
import { parseDigest } from "./digest.ts";

export type Reference = RegistryReference | LayoutReference;

export interface RegistryReference {
  readonly kind: "registry";
  /** Undefined where the person left it to us. */
  readonly transport: "http" | "https" | undefined;
  readonly host: string;
  readonly repository: string;
  readonly tag: string | undefined;
  /** Exactly what is meant; a tag beside it is a name for it. */
  readonly digest: Digest | undefined;
}

export interface LayoutReference {
  readonly kind: "layout" | "archive";
  readonly path: string;
  /** A tag, or `repository:tag`. */
  readonly name: string | undefined;
  readonly digest: Digest | undefined;
}

/** Letters, digits and dots, or an IPv6 address in brackets, and a port. */
const HOST = /^(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;

export function parseReference(text: string): Reference {
  // As helm has it, `oci://` is a registry: a path on disk does not begin with two slashes.
  const [, scheme, rest = ""] = /^(oci|oci-archive):(?!\/\/)(.*)$/s.exec(text) ?? [];
  if (scheme !== undefined) return parsePath(scheme === "oci" ? "layout" : "archive", rest, text);

  const [, prefix, named = ""] = /^(?:(docker|oci|https?):\/\/)?(.*)$/s.exec(text) ?? [];
  const [, host = "", path = ""] = /^([^/]+)\/(.+)$/s.exec(named) ?? [];
  if (!HOST.test(host) || !/[.:]|^localhost$/.test(host)) {
    throw new Failure("invalid", `${text} does not begin with the host of a registry`);
  }
  const [, repository = path, tag, digest] = /^([^:@]+)(?::([^:@]+))?(?:@(.+))?$/.exec(path) ?? [];
  checkRepository(repository);
  if (tag !== undefined) checkTag(tag);
  return {
    kind: "registry",
    transport: prefix === "http" || prefix === "https" ? prefix : undefined,
    host,
    repository:
      host === "docker.io" && !repository.includes("/") ? `library/${repository}` : repository,
    tag,
    digest: digest === undefined ? undefined : parseDigest(digest),
  };
}

/** Where a registry answers. What the reference says counts before what is said for all of them. */
export function originOf(
  { transport, host }: Pick<RegistryReference, "transport" | "host">,
  plainHttp: boolean,
): string {
  const isPlain = transport === undefined ? plainHttp || LOOPBACK.test(host) : transport === "http";
  // What people call docker.io answers elsewhere.
  const name = host === "docker.io" ? "registry-1.docker.io" : host;
  return `${isPlain ? "http" : "https"}://${name}`;
}

/** Registries on this very machine are for trying things out: they rarely have a certificate. */
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/i;

function parsePath(kind: "layout" | "archive", rest: string, text: string): LayoutReference {
  const [, place = "", after] = /^(.*?)(?:@(sha(?:256|512):.*))?$/s.exec(rest) ?? [];
  // The path ends at the first colon.
  const [, path, given] = /^([^:]+)(?::(.+))?$/s.exec(place) ?? [];
  if (path === undefined) throw new Failure("invalid", `${text} has no path`);
  const isDigest = after === undefined && /^sha(?:256|512):/.test(given ?? "");
  const [name, digest] = isDigest ? [undefined, given] : [given, after];
  return { kind, path, name, digest: digest === undefined ? undefined : parseDigest(digest) };
}
