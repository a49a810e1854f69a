// Watches an archive of images on its way into the engine: an image may be named as one of this install's and in no
// other way. Otherwise whoever can load could put something else in the place of anybody's image on that engine.

import { Failure, z } from "@exclave/plugin-sdk";

const BLOCK = 512;
const LIST_BYTES_MAX = 1024 * 1024;
const ARCHIVE_BYTES_MAX = 16 * 1024 ** 3;
const LIST = "manifest.json";
/** Other ways in which an archive can name images. */
const OTHER_LISTS = new Set(["repositories", "index.json", "oci-layout"]);

const List = z.array(z.looseObject({ RepoTags: z.array(z.string()) })).min(1);

/** The same bytes, up to the first that are not to be. The list of names has to come first. */
export async function* filterLoad(
  chunks: AsyncIterable<Uint8Array>,
  isOwnTag: (tag: string) => boolean,
): AsyncIterable<Uint8Array> {
  let held = Buffer.alloc(0);
  let left = 0;
  let total = 0;
  let isListed = false;
  let hasEnded = false;
  for await (const chunk of chunks) {
    total += chunk.length;
    if (total > ARCHIVE_BYTES_MAX) throw refused("it is too large");
    held = held.length === 0 ? Buffer.from(chunk) : Buffer.concat([held, chunk]);
    while (held.length > 0) {
      if (left > 0) {
        const part = held.subarray(0, left);
        held = held.subarray(part.length);
        left -= part.length;
        yield part;
        continue;
      }
      if (held.length < BLOCK) break;
      const header = held.subarray(0, BLOCK);
      if (hasEnded || header.every((byte) => byte === 0)) {
        // Behind its end an archive holds nothing: a reader might go on where this one stops.
        if (!header.every((byte) => byte === 0)) throw refused("something follows its end");
        hasEnded = true;
        yield header;
        held = held.subarray(BLOCK);
        continue;
      }
      const { name, size } = readHeader(header);
      if (!isListed) {
        if (name !== LIST) throw refused(`it begins with ${name} and not with ${LIST}`);
        if (size > LIST_BYTES_MAX) throw refused(`its ${LIST} is too large`);
        if (held.length < BLOCK + size) break;
        checkNames(held.subarray(BLOCK, BLOCK + size), isOwnTag);
        isListed = true;
      } else if (name === LIST || OTHER_LISTS.has(name)) {
        throw refused(`it holds a second list of names, ${name}`);
      }
      left = BLOCK + Math.ceil(size / BLOCK) * BLOCK;
    }
  }
  if (!isListed || left > 0) throw refused("it ends in the middle");
  yield held;
}

/** Plain files with plain names: nothing that different readers could read differently. */
function readHeader(header: Buffer): { readonly name: string; readonly size: number } {
  const text = (from: number, to: number) =>
    header.toString("latin1", from, to).replace(/\0.*$/s, "");
  const type = text(156, 157);
  const name = text(0, 100);
  const isPlain = (type === "0" || type === "") && /^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name);
  const prefix = text(345, 500);
  const size = /^[0-7]{11}$/.test(text(124, 136)) ? Number.parseInt(text(124, 136), 8) : undefined;
  if (!isPlain || prefix !== "" || size === undefined) {
    throw refused(`an entry of it is no plain file: ${JSON.stringify(name)}`);
  }
  return { name, size };
}

function checkNames(bytes: Buffer, isOwnTag: (tag: string) => boolean): void {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString());
  } catch {
    throw refused(`its ${LIST} is not JSON`);
  }
  const tags = List.safeParse(value).data?.flatMap(({ RepoTags }) => RepoTags);
  if (!tags || tags.length === 0) throw refused("an image in it has no name");
  const other = tags.find((tag) => !isOwnTag(tag));
  if (other !== undefined) throw refused(`${other} is no name of this install's`);
}

function refused(because: string): Failure {
  return new Failure("forbidden", `this archive is not loaded: ${because}`);
}
