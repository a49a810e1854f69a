// Turns what a person wrote into a store and a place in it.

import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Digest, Failure } from "@exclave/core";
import type { Credentials } from "../client/auth/credential.ts";
import { createRegistryClient } from "../client/registry-client.ts";
import type { ContentStore } from "../content/content-store.ts";
import { readLayoutArchive, writeLayoutArchive } from "../content/layout-archive.ts";
import { findInLayout, isBareName, listLayout, placeInLayout } from "../content/layout-names.ts";
import { createLayoutStore } from "../content/layout-store.ts";
import {
  type LayoutReference,
  originOf,
  parseReference,
  type Reference,
} from "../content/reference.ts";

export interface Access {
  /** For references that do not say it themselves. */
  readonly plainHttp: boolean;
  /** Every certificate (PEM) that may vouch for a registry; undefined means the usual ones. */
  readonly ca?: string | undefined;
  readonly credentials?: Credentials | undefined;
  readonly signal: AbortSignal;
}

/** Something that is there. */
export interface OpenSource extends AsyncDisposable {
  readonly store: ContentStore;
  /** The registry's, if it is one. */
  readonly origin: string | undefined;
  readonly repository: string;
  /** A tag or a digest. */
  readonly reference: string;
  /** What to call it elsewhere, if it has such a name. */
  readonly tag: string | undefined;
}

/** Somewhere to put things. */
export interface OpenTarget extends AsyncDisposable {
  readonly store: ContentStore;
  readonly origin: string | undefined;
  /** What is put there must be this, if it was named. */
  readonly digest: Digest | undefined;
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
    const { repository, tag, digest } = parsed;
    const { client, origin } = connect(originOf(parsed, access.plainHttp), access);
    const reference = digest ?? tag ?? "latest";
    return {
      store: client,
      origin,
      repository,
      reference,
      tag: tag ?? (digest === undefined ? "latest" : undefined),
      [Symbol.asyncDispose]: async () => client.close(),
    };
  }
  const layout = await openLayout(parsed, access, "read");
  try {
    const entry = findInLayout(await listLayout(layout.directory), parsed, text);
    return {
      store: createLayoutStore({ directory: layout.directory }),
      origin: undefined,
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

export async function openTarget(parsed: Reference, access: Access): Promise<OpenTarget> {
  const { digest } = parsed;
  if (parsed.kind === "registry") {
    const { repository } = parsed;
    const { client, origin } = connect(originOf(parsed, access.plainHttp), access);
    // A digest is a name of its own; what has neither gets the one that is looked for elsewhere.
    const tag = parsed.tag ?? (digest === undefined ? "latest" : undefined);
    return {
      store: client,
      origin,
      digest,
      place: () => ({ repository, tag }),
      finish: async () => undefined,
      [Symbol.asyncDispose]: async () => client.close(),
    };
  }
  const layout = await openLayout(parsed, access, "write");
  const hasBareNames = isBareName(parsed.name);
  return {
    store: createLayoutStore({ directory: layout.directory, hasBareNames }),
    origin: undefined,
    digest,
    place: (cameFrom) => placeInLayout(parsed, cameFrom),
    async finish() {
      if (parsed.kind !== "archive") return;
      await writeLayoutArchive(layout.directory, parsed.path, access.signal);
    },
    [Symbol.asyncDispose]: layout.dispose,
  };
}

function connect(origin: string, { ca, credentials }: Access) {
  return { origin, client: createRegistryClient({ url: origin, credentials, ca }) };
}

async function openLayout(
  { kind, path }: LayoutReference,
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
