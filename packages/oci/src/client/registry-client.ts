// A registry, reached over HTTP, as a content store. Works with any OCI Distribution registry.

import type { Digest } from "@exclave/core";
import {
  type ContentStore,
  checkRepository,
  missing,
  type Waiting,
} from "../content/content-store.ts";
import type { Descriptor } from "../content/descriptor.ts";
import { openSource } from "../content/digest.ts";
import type { Sink } from "./raw-download.ts";
import { unreachableFailure } from "./registry-failure.ts";
import { createRegistryHttp, type RegistryHttpOptions } from "./registry-http.ts";
import { createRegistryManifests, root } from "./registry-manifests.ts";
import { createMounts } from "./registry-mounts.ts";
import { uploadBlob } from "./registry-upload.ts";

export interface RegistryClient extends ContentStore {
  /**
   * Like `readBlob`, over a socket of its own and with one buffer that is used again: a chunk is
   * only good until the sink is done with it.
   */
  pourBlob(
    repository: string,
    digest: Digest,
    sink: Sink,
    options?: Waiting & { readonly from?: number },
  ): Promise<void>;

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
  const base = new URL(options.url);

  const client: RegistryClient = {
    ...createRegistryManifests(http),

    async headBlob(repository, digest, { signal } = {}) {
      const path = `${root(repository)}/blobs/${digest}`;
      const response = await http.ask({ method: "HEAD", path, accept: [200, 404], signal });
      if (response.statusCode === 404) return undefined;
      return Number(response.headers["content-length"] ?? Number.NaN);
    },

    async *readBlob(repository, digest, { from = 0, signal } = {}) {
      const path = `${root(repository)}/blobs/${digest}`;
      let at = from;
      let attempt = 1;
      for (;;) {
        try {
          const headers: Record<string, string> = at > 0 ? { range: `bytes=${at}-` } : {};
          const accept = at > 0 ? [200, 206, 404, 416] : [200, 404];
          const request = { path, headers, accept, attemptsMax: 1, signal };
          const response = await http.send({ method: "GET", ...request });
          if (response.statusCode === 404) {
            response.resume();
            throw missing(`blob ${digest}`, repository);
          }
          if (response.statusCode === 416) {
            response.resume();
            return;
          }
          // A registry that knows no ranges sends everything: pass over what we have.
          let skip = response.statusCode === 206 ? 0 : at;
          for await (const chunk of response as AsyncIterable<Buffer>) {
            const fresh = chunk.subarray(skip);
            skip -= chunk.length - fresh.length;
            if (fresh.length === 0) continue;
            at += fresh.length;
            attempt = 1;
            yield fresh;
          }
          return;
        } catch (thrown) {
          const reason = unreachableFailure(thrown, base, signal);
          if (!http.mayRetry(attempt, reason)) throw reason;
          await http.pauseBefore(++attempt, reason, signal);
        }
      }
    },

    async pourBlob(repository, digest, sink, { from = 0, signal } = {}) {
      const path = `${root(repository)}/blobs/${digest}`;
      let at = from;
      let isSinkBroken = false;
      const take = async (chunk: Uint8Array): Promise<void> => {
        try {
          await sink(chunk);
        } catch (reason) {
          isSinkBroken = true;
          throw reason;
        }
        at += chunk.length;
      };
      for (let attempt = 1; ; attempt++) {
        const begunAt = at;
        try {
          const headers: Record<string, string> = at > 0 ? { range: `bytes=${at}-` } : {};
          const accept = at > 0 ? [200, 206, 404, 416] : [200, 404];
          const status = await http.download({ path, headers, accept, signal }, (answered) => {
            // Only a body with content is the blob's; without ranges it comes from its beginning.
            if (answered !== 200 && answered !== 206) return async () => undefined;
            return answered === 206 ? take : after(at, take);
          });
          if (status === 404) throw missing(`blob ${digest}`, repository);
          return;
        } catch (thrown) {
          const reason = unreachableFailure(thrown, base, signal);
          if (at > begunAt) attempt = 1;
          if (isSinkBroken || !http.mayRetry(attempt, reason)) throw reason;
          await http.pauseBefore(attempt + 1, reason, signal);
        }
      }
    },

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
  const mounts = createMounts(http, client);
  return client;

  function uploadTo(
    repository: string,
    descriptor: Pick<Descriptor, "digest" | "size">,
    signal: AbortSignal | undefined,
  ) {
    const path = `${root(repository)}/blobs/`;
    const isThere = async () =>
      (await client.headBlob(repository, descriptor.digest, { signal })) !== undefined;
    return { http, path, descriptor, signal, isThere };
  }
}

/** Passes over the first bytes. */
function after(count: number, sink: Sink): Sink {
  let skip = count;
  return async (chunk) => {
    const fresh = chunk.subarray(skip);
    skip -= chunk.length - fresh.length;
    if (fresh.length > 0) await sink(fresh);
  };
}
