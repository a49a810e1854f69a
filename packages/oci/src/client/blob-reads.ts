// Reading blobs out of a registry. A connection that breaks is resumed where it broke, as often as it gets further.

import type { Digest } from "@exclave/core";
import { type ContentStore, missing, type Waiting } from "../content/content-store.ts";
import type { Sink } from "./raw/raw-connection.ts";
import { unreachableFailure } from "./registry-failure.ts";
import type { RegistryHttp } from "./registry-http.ts";
import { root } from "./registry-manifests.ts";

export interface BlobReads extends Pick<ContentStore, "headBlob" | "readBlob"> {
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
}

export function createBlobReads(http: RegistryHttp, base: URL): BlobReads {
  return {
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
          const request = { path, ...resumedAt(at), attemptsMax: 1, signal };
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
          const status = await http.download({ path, ...resumedAt(at), signal }, (answered) => {
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
  };
}

/** The parts of a request that ask for a blob from there on. */
function resumedAt(at: number): {
  readonly headers: Record<string, string>;
  readonly accept: readonly number[];
} {
  if (at === 0) return { headers: {}, accept: [200, 404] };
  return { headers: { range: `bytes=${at}-` }, accept: [200, 206, 404, 416] };
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
