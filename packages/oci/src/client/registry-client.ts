// A registry, reached over HTTP, as a content store. Works with any OCI Distribution registry.

import { type ContentStore, checkRepository, type Waiting } from "../content/content-store.ts";
import type { Descriptor } from "../content/descriptor.ts";
import { openSource } from "../content/digest.ts";
import { type BlobReads, createBlobReads } from "./blob-reads.ts";
import type { Sink } from "./raw/raw-connection.ts";
import { createRegistryHttp, type RegistryHttpOptions } from "./registry-http.ts";
import { createRegistryManifests, root } from "./registry-manifests.ts";
import { createMounts } from "./registry-mounts.ts";
import { uploadBlob } from "./registry-upload.ts";

export interface RegistryClient extends ContentStore, BlobReads {
  /**
   * Brings in a blob that is known not to be here: from another repository of this registry if it
   * can be had there, else by letting `pour` hand over its bytes, as often as it takes.
   */
  bringBlob(
    repository: string,
    descriptor: Pick<Descriptor, "digest" | "size">,
    pour: (from: number, sink: Sink) => Promise<void>,
    options?: Waiting & { readonly mountFrom?: readonly string[] },
  ): Promise<"copied" | "mounted">;

  /** Calls back whenever the registry says that this is too much for it; returns how to stop. */
  onThrottle(listener: () => void): () => void;

  /** Requests sent since the client was made. */
  readonly requests: number;

  /** Lets go of kept-alive connections. */
  close(): void;
}

export function isRegistryClient(store: ContentStore): store is RegistryClient {
  return "pourBlob" in store && "bringBlob" in store;
}

export function createRegistryClient(options: RegistryHttpOptions): RegistryClient {
  const http = createRegistryHttp(options);
  const reads = createBlobReads(http, new URL(options.url));
  const mounts = createMounts(http, reads);

  return {
    ...createRegistryManifests(http),
    ...reads,

    async writeBlob(repository, descriptor, source, { signal } = {}) {
      const upload = uploadTo(repository, descriptor, signal);
      if (await upload.isThere()) return;
      const pour = async (from: number, sink: Sink) => {
        for await (const chunk of openSource(source, from)) await sink(chunk);
      };
      await uploadBlob({ ...upload, pour, canResume: typeof source === "function" });
    },

    async bringBlob(repository, descriptor, pour, { signal, mountFrom = [] } = {}) {
      const { digest } = descriptor;
      const location = await mounts.find(repository, digest, mountFrom, signal);
      if (location === "mounted") return "mounted";
      const upload = uploadTo(repository, descriptor, signal);
      await uploadBlob({ ...upload, pour, canResume: true, location });
      return "copied";
    },

    async mountBlob(from, to, digest, { signal } = {}) {
      checkRepository(from);
      return (await mounts.from(from, to, digest, signal)) === "mounted";
    },

    onThrottle: (listener) => http.onThrottle(listener),
    get requests() {
      return http.requests;
    },
    close: () => http.close(),
  };

  function uploadTo(
    repository: string,
    descriptor: Pick<Descriptor, "digest" | "size">,
    signal: AbortSignal | undefined,
  ) {
    const path = `${root(repository)}/blobs/`;
    const isThere = async () =>
      (await reads.headBlob(repository, descriptor.digest, { signal })) !== undefined;
    return { http, path, descriptor, signal, isThere };
  }
}
