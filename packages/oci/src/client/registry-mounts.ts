// Blobs that lie in another repository of the same registry need not be sent again.

import { type Digest, Failure } from "@exclave/core";
import { type ContentStore, checkRepository } from "../content/content-store.ts";
import type { RegistryHttp } from "./registry-http.ts";

export interface Mounts {
  /**
   * Takes the blob from wherever the registry or we know it to be. If it is nowhere: where to send
   * it instead, or undefined if the registry did not say.
   */
  find(
    to: string,
    digest: Digest,
    candidates: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<"mounted" | URL | undefined>;

  /** From one repository; an upload the registry opens instead is closed again. */
  from(
    from: string,
    to: string,
    digest: Digest,
    signal: AbortSignal | undefined,
  ): Promise<"mounted" | "impossible">;
}

/** Each costs a request per blob, so not every repository of a long list is asked. */
const CANDIDATES_MAX = 4;

export function createMounts(http: RegistryHttp, store: Pick<ContentStore, "headBlob">): Mounts {
  let knowsUnnamed = true;

  return {
    async find(to, digest, candidates, signal) {
      // Without a name first: a registry that knows such mounts finds the blob wherever it lies, and
      // for any other one this is the request that opens the upload.
      const opened = knowsUnnamed ? await mountUnnamed(to, digest, signal) : undefined;
      if (opened === "mounted") return opened;
      const others = candidates.filter((name) => name !== to).slice(0, CANDIDATES_MAX);
      for (const other of others) {
        if (!(await isIn(other, digest, signal))) continue;
        if ((await mountFrom(other, to, digest, signal)) !== "mounted") continue;
        if (opened) await http.abandon(opened);
        return "mounted";
      }
      return opened;
    },
    from: mountFrom,
  };

  async function mountUnnamed(to: string, digest: Digest, signal: AbortSignal | undefined) {
    try {
      return await mount(to, new URLSearchParams({ mount: digest }), signal);
    } catch (reason) {
      // Some registries do not know the form without a name; they are not asked in it again.
      if (!isRefusal(reason)) throw reason;
      knowsUnnamed = false;
      return undefined;
    }
  }

  async function mountFrom(
    from: string,
    to: string,
    digest: Digest,
    signal: AbortSignal | undefined,
  ): Promise<"mounted" | "impossible"> {
    const opened = await mount(to, new URLSearchParams({ mount: digest, from }), signal);
    if (opened === "mounted") return opened;
    // It opened an upload instead, which nobody is going to use.
    await http.abandon(opened);
    return "impossible";
  }

  async function mount(to: string, query: URLSearchParams, signal: AbortSignal | undefined) {
    checkRepository(to);
    const path = `/v2/${to}/blobs/uploads/?${query.toString()}`;
    const response = await http.ask({ method: "POST", path, accept: [201, 202], signal });
    return response.statusCode === 201
      ? ("mounted" as const)
      : http.resolve(response.headers.location);
  }

  /** A repository we may not look into is as good as one that has nothing. */
  async function isIn(repository: string, digest: Digest, signal: AbortSignal | undefined) {
    try {
      return (await store.headBlob(repository, digest, { signal })) !== undefined;
    } catch (reason) {
      if (isDenial(reason)) return false;
      throw reason;
    }
  }
}

function isRefusal(reason: unknown): boolean {
  return reason instanceof Failure && (reason.code === "invalid" || reason.code === "not_found");
}

function isDenial(reason: unknown): boolean {
  return (
    reason instanceof Failure && (reason.code === "forbidden" || reason.code === "unauthenticated")
  );
}
