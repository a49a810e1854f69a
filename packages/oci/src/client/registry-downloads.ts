// GETs of large bodies over sockets of their own, redirects followed.

import type { Failure } from "@exclave/core";
import { createRawDownloads, type RawAnswer } from "./raw/raw-download.ts";
import type { RawSocketOptions } from "./raw/raw-socket.ts";
import { REDIRECTS_MAX, type RegistryPlace } from "./registry-attempt.ts";
import { REFUSAL_BYTES_MAX, refusalFailure, unreachableFailure } from "./registry-failure.ts";
import { followLocation } from "./registry-origins.ts";

export interface RegistryDownloads {
  /** Undefined if what came back is not simply a body of known length. */
  get(request: DownloadRequest): Promise<RawAnswer | undefined>;
  close(): void;
}

export interface DownloadRequest {
  readonly path: string | URL;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal | undefined;
}

export interface RegistryDownloadsOptions extends RegistryPlace, RawSocketOptions {}

export function createRegistryDownloads(options: RegistryDownloadsOptions): RegistryDownloads {
  const { base, proofs, pace } = options;
  const downloads = createRawDownloads(options);

  return {
    async get({ path, headers, signal }) {
      let url = new URL(path, base);
      for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
        await pace.beforeRequest(signal);
        const sent = { ...headers, ...(await proofs.of(url, "GET")) };
        const answer = await downloads.get(url, sent, signal).catch((reason: unknown) => {
          throw unreachableFailure(reason, url, signal);
        });
        const isBody = answer.status === 200 || answer.status === 206;
        if (isBody && answer.length !== undefined) return answer;
        if (answer.status === 429 || answer.status >= 500) throw await rawFailure(answer, url);
        answer.drop();
        const { location } = answer.headers;
        if (answer.status < 300 || answer.status >= 400 || location === undefined) return undefined;
        url = followLocation(location, url, options);
      }
      return undefined;
    },
    close: () => downloads.close(),
  };
}

async function rawFailure(answer: RawAnswer, url: URL): Promise<Failure> {
  const chunks: Buffer[] = [];
  if (answer.length === undefined || answer.length > REFUSAL_BYTES_MAX) answer.drop();
  else {
    const take = async (chunk: Uint8Array) => void chunks.push(Buffer.from(chunk));
    await answer.pour(take).catch(() => undefined);
  }
  return refusalFailure({ ...answer, body: Buffer.concat(chunks) }, "GET", url);
}
