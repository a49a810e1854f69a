// Reads the entries of an archive in memory, without judging where they lie.

import { Failure, unreachable } from "../failure.ts";
import { type ArchiveLimits, createArchiveBudget } from "./archive-limits.ts";
import type { TarEntry } from "./tar.ts";
import { BLOCK } from "./tar-header.ts";
import { createTarHeaders, paddingOf, type TarHeader } from "./tar-headers.ts";

export function* readRecords(
  bytes: Uint8Array,
  limits: Partial<ArchiveLimits> = {},
): Iterable<TarEntry> {
  const files = new Map<string, Uint8Array>();
  const headers = createTarHeaders();
  const budget = createArchiveBudget(limits);
  let offset = 0;

  for (;;) {
    const block = headers.read(take(BLOCK));
    if (block.kind === "end") return;
    if (block.kind === "extension") {
      headers.extend(take(block.size));
      offset += paddingOf(block.size);
      continue;
    }
    const { header } = block;
    const linked = header.type === "hardlink" ? files.get(header.target) : undefined;
    // A second name is a second copy here, so it counts as much as the first.
    budget.take({ ...header, size: linked?.length ?? header.size });
    const content = take(header.size);
    offset += paddingOf(header.size);
    const entry = entryOf(header, content, linked);
    if (entry.type === "file") files.set(entry.path, entry.bytes);
    yield entry;
  }

  function take(size: number): Uint8Array {
    const part = bytes.subarray(offset, offset + size);
    if (part.length < size) throw broken("it ends in the middle");
    offset += size;
    return part;
  }
}

function entryOf(
  { path, type, mode, target }: TarHeader,
  content: Uint8Array,
  linked: Uint8Array | undefined,
): TarEntry {
  switch (type) {
    case "file":
      return { type, path, mode, bytes: Uint8Array.from(content) };
    case "hardlink":
      if (!linked) throw broken(`${path} is a second name of ${target}, which is not there`);
      return { type: "file", path, mode, bytes: linked };
    case "symlink":
      return { type, path, target };
    case "directory":
      return { type, path, mode };
    case "other":
      throw broken(`${path} is neither file, directory nor link`);
    default:
      return unreachable(type);
  }
}

function broken(because: string): Failure {
  return new Failure("invalid", `the archive cannot be read: ${because}`);
}
