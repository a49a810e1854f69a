// What a layout lists by name, in its `index.json`: manifests, as `<repository>:<tag>` in the customary annotation, or
// by tag alone where another tool wrote it.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Digest, Failure } from "@exclave/core";
import { readFileIfThere, writeFileDurably } from "./blob-files.ts";
import { type Descriptor, ImageIndex, MEDIA_TYPES } from "./descriptor.ts";

export interface LayoutIndexOptions {
  readonly directory: string;
  /** A tag is the whole name of an entry, as other tools have it; the repository is only noted. */
  readonly hasBareNames?: boolean;
}

export interface LayoutIndex {
  entries(): Promise<Descriptor[]>;
  /** The entries of one repository, and those that nobody noted a repository for. */
  entriesOf(repository: string): Promise<Descriptor[]>;
  findTagged(repository: string, tag: string): Promise<Descriptor | undefined>;
  tags(repository: string): Promise<string[]>;
  /** Lists a manifest, in place of what it replaces; `children` need no entry of their own any more. */
  add(added: AddedEntry): Promise<void>;
}

interface AddedEntry {
  readonly repository: string;
  readonly tag: string | undefined;
  readonly descriptor: Pick<Descriptor, "mediaType" | "digest" | "size">;
  readonly children: ReadonlySet<Digest>;
}

const REF_NAME = "org.opencontainers.image.ref.name";
const REPOSITORY = "dev.exclave.repository";

export function createLayoutIndex(options: LayoutIndexOptions): LayoutIndex {
  const { directory, hasBareNames = false } = options;
  const file = join(directory, "index.json");
  let lastChange: Promise<unknown> = Promise.resolve();

  return {
    entries,

    async entriesOf(repository) {
      const all = await entries();
      return all.filter((entry) => (entry.annotations?.[REPOSITORY] ?? repository) === repository);
    },

    async findTagged(repository, tag) {
      const all = await entries();
      if (!hasBareNames) return all.find((entry) => tagOf(entry, repository) === tag);
      // One under another name, or of nobody's repository, is not yet what is to be written here.
      const isOurs = ({ annotations }: Descriptor) =>
        annotations?.[REF_NAME] === tag && annotations[REPOSITORY] === repository;
      return all.find(isOurs);
    },

    async tags(repository) {
      const names = (await entries()).map((entry) => tagOf(entry, repository));
      return [...new Set(names.filter((name) => name !== undefined))].sort();
    },

    async add(added) {
      const { repository, tag, descriptor } = added;
      const name = tag === undefined ? undefined : nameOf(repository, tag);
      const annotations = { ...(name && { [REF_NAME]: name }), [REPOSITORY]: repository };
      await change((all) => [
        ...all.filter((entry) => {
          const isNamedSo = name !== undefined && entry.annotations?.[REF_NAME] === name;
          return !isNamedSo && !isReplaced(entry, added);
        }),
        { ...descriptor, annotations },
      ]);
    },
  };

  function nameOf(repository: string, tag: string): string {
    return hasBareNames ? tag : `${repository}:${tag}`;
  }

  async function entries(): Promise<Descriptor[]> {
    const text = await readFileIfThere(file);
    if (!text) return [];
    const index = ImageIndex.safeParse(JSON.parse(text.toString("utf8")));
    if (index.success) return index.data.manifests;
    throw new Failure("invalid", `${file} is not an OCI index`, { cause: index.error });
  }

  /** One change at a time: two of them side by side would lose one. */
  async function change(changed: (all: Descriptor[]) => Descriptor[]): Promise<void> {
    const mine = after(lastChange, async () => {
      await mkdir(directory, { recursive: true });
      await writeFileDurably(
        join(directory, "oci-layout"),
        `${JSON.stringify({ imageLayoutVersion: "1.0.0" })}\n`,
      );
      const manifests = changed(await entries());
      const index = { schemaVersion: 2, mediaType: MEDIA_TYPES.index, manifests };
      await writeFileDurably(file, `${JSON.stringify(index, null, 2)}\n`);
    });
    lastChange = mine.catch(() => undefined);
    await mine;
  }
}

async function after(earlier: Promise<unknown>, work: () => Promise<void>): Promise<void> {
  await earlier;
  await work();
}

/** Names are `<repository>:<tag>`, or a tag alone: of the repository noted beside it, if there is one. */
function tagOf(entry: Descriptor, repository: string): string | undefined {
  const name = entry.annotations?.[REF_NAME];
  if (name === undefined) return undefined;
  if (name.startsWith(`${repository}:`)) return name.slice(repository.length + 1);
  const noted = entry.annotations?.[REPOSITORY] ?? repository;
  return noted === repository && !name.includes(":") ? name : undefined;
}

/** An entry goes when its tag moves, when it is written again, or when an index now leads to it. */
function isReplaced(
  entry: Descriptor,
  { repository, tag, descriptor, children }: AddedEntry,
): boolean {
  if (entry.annotations?.[REPOSITORY] !== repository) return false;
  const name = tagOf(entry, repository);
  if (name !== undefined) return name === tag;
  return entry.digest === descriptor.digest || children.has(entry.digest);
}
