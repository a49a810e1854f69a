// Archives in memory: a source that is uploaded, a layer that is packed. Written so that equal
// entries are equal bytes (sorted, no owner, no time), and read with suspicion: nothing an archive
// says may lead outside the directory it is unpacked into. POSIX ustar, pax headers for what does
// not fit; GNU long names are understood when reading.

import { Failure } from "../failure.ts";
import type { ArchiveLimits } from "./archive-limits.ts";
import { encodeEnd, encodeEntry } from "./tar-header.ts";
import { checkedPath, checkLink } from "./tar-path.ts";
import { readRecords } from "./tar-reader.ts";

export type TarEntry =
  | {
      readonly type: "file";
      readonly path: string;
      readonly mode: number;
      readonly bytes: Uint8Array;
    }
  | { readonly type: "directory"; readonly path: string; readonly mode: number }
  | { readonly type: "symlink"; readonly path: string; readonly target: string };

export function writeTar(entries: Iterable<TarEntry>): Uint8Array<ArrayBuffer> {
  const checked = checkEntries(entries);
  const sorted = checked.toSorted((a, b) => (a.path < b.path ? -1 : 1));
  return concat([...sorted.flatMap(encodeEntry), encodeEnd()]);
}

/** The entries in the archive's order; throws `invalid` for a broken archive or one with tricks. */
export function readTar(bytes: Uint8Array, limits: Partial<ArchiveLimits> = {}): TarEntry[] {
  return checkEntries(readRecords(bytes, limits));
}

function checkEntries(entries: Iterable<TarEntry>): TarEntry[] {
  const types = new Map<string, TarEntry["type"]>();
  const checked: TarEntry[] = [];
  for (const entry of entries) {
    const path = checkedPath(entry.path);
    // The archive's own root, which `tar -C dir .` writes first, is nobody's entry.
    if (path === "" && entry.type === "directory") continue;
    if (path === "") throw new Failure("invalid", `the archive has a ${entry.type} for its root`);
    if (types.has(path) && !(entry.type === "directory" && types.get(path) === "directory")) {
      throw new Failure("invalid", `the archive names ${path} twice`);
    }
    if (entry.type === "symlink") checkLink(path, entry.target);
    types.set(path, entry.type);
    checked.push({ ...entry, path });
  }
  for (const { path } of checked) refuseThroughLinks(path, types);
  return checked;
}

/** What lies below a link lies wherever the link leads; what lies below a file lies nowhere. */
function refuseThroughLinks(path: string, types: ReadonlyMap<string, TarEntry["type"]>): void {
  for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1)) {
    const type = types.get(path.slice(0, at));
    if (type === "symlink" || type === "file") {
      throw new Failure("invalid", `the archive puts ${path} below a ${type}`);
    }
  }
}

function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}
