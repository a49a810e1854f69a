// Turns what a person wrote into a store and a place in it.

import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Failure } from "@exclave/core";
import type { ContentStore } from "./content-store.ts";
import { readLayoutArchive, writeLayoutArchive } from "./layout-archive.ts";
import { findInLayout, listLayout, placeInLayout } from "./layout-names.ts";
import { createLayoutStore } from "./layout-store.ts";
import { parseReference, type Reference } from "./reference.ts";
import type { Credentials } from "./registry-auth.ts";
import { createRegistryClient } from "./registry-client.ts";

export interface Access {
  readonly plainHttp: boolean;
  readonly ca?: Buffer | undefined;
  readonly credentials?: Credentials | undefined;
  readonly signal: AbortSignal;
}

/** Something that is there. */
export interface OpenSource extends AsyncDisposable {
  readonly store: ContentStore;
  readonly repository: string;
  /** A tag or a digest. */
  readonly reference: string;
  /** What to call it elsewhere, if it has such a name. */
  readonly tag: string | undefined;
}

/** Somewhere to put things. */
export interface OpenTarget extends AsyncDisposable {
  readonly store: ContentStore;
  place(cameFrom: { readonly repository: string; readonly tag?: string | undefined }): {
    readonly repository: string;
    readonly tag?: string | undefined;
  };
  /** What was put there becomes final; nothing is before. */
  finish(): Promise<void>;
}

export async function openSource(text: string, access: Access): Promise<OpenSource> {
  const parsed = parseReference(text);
  if (parsed.kind === "registry") {
    const { repository, reference = "latest" } = parsed;
    const client = connect(parsed, access);
    const tag = reference.includes(":") ? undefined : reference;
    const dispose = async () => client.close();
    return { store: client, repository, reference, tag, [Symbol.asyncDispose]: dispose };
  }
  const layout = await openLayout(parsed, access, "read");
  try {
    const entry = findInLayout(await listLayout(layout.directory), parsed.name, text);
    return {
      store: createLayoutStore({ directory: layout.directory }),
      repository: entry.repository,
      reference: entry.digest,
      tag: entry.name?.split(":").at(-1),
      [Symbol.asyncDispose]: layout.dispose,
    };
  } catch (reason) {
    await layout.dispose();
    throw reason;
  }
}

export async function openTarget(text: string, access: Access): Promise<OpenTarget> {
  const parsed = parseReference(text);
  if (parsed.kind === "registry") {
    const { repository, reference } = parsed;
    // A digest in the name of a target names no tag; whether it is right is checked by the copy.
    const tag = reference?.includes(":") ? undefined : reference;
    const client = connect(parsed, access);
    return {
      store: client,
      place: () => ({ repository, tag }),
      finish: async () => undefined,
      [Symbol.asyncDispose]: async () => client.close(),
    };
  }
  const layout = await openLayout(parsed, access, "write");
  return {
    store: createLayoutStore({ directory: layout.directory }),
    place: (cameFrom) => placeInLayout(parsed.name, cameFrom),
    async finish() {
      if (parsed.kind !== "archive") return;
      await writeLayoutArchive(layout.directory, parsed.path, access.signal);
    },
    [Symbol.asyncDispose]: layout.dispose,
  };
}

function connect({ host }: Extract<Reference, { kind: "registry" }>, access: Access) {
  const { plainHttp, ca, credentials } = access;
  // What people call docker.io answers elsewhere.
  const name = host === "docker.io" ? "registry-1.docker.io" : host;
  return createRegistryClient({
    url: `${plainHttp ? "http" : "https"}://${name}`,
    credentials,
    ca,
  });
}

async function openLayout(
  { kind, path }: Extract<Reference, { kind: "layout" | "archive" }>,
  { signal }: Access,
  use: "read" | "write",
) {
  if (kind === "layout") return { directory: path, dispose: async () => undefined };
  const directory = await mkdtemp(join(tmpdir(), "exclave-layout-"));
  const dispose = () => rm(directory, { recursive: true, force: true });
  try {
    // An archive that is there is added to.
    const isThere = await stat(path).then(
      () => true,
      () => false,
    );
    if (use === "read" || isThere) await readLayoutArchive(path, directory, signal);
  } catch (reason) {
    await dispose();
    if (reason instanceof Failure) throw reason;
    throw new Failure("invalid", `${path} is not an archive of an OCI layout`, { cause: reason });
  }
  return { directory, dispose };
}
