// Brings one blob into a registry. A small one goes in a single request; a large one in a stream
// that, if it breaks and its source can be opened again, goes on from where the registry got to.

import { asFailure } from "@exclave/core";
import type { Descriptor } from "./descriptor.ts";
import { type ByteSource, createVerifier, openSource, type Verifier } from "./digest.ts";
import { isTransient, type RegistryHttp } from "./registry-http.ts";

export interface BlobUpload {
  readonly http: RegistryHttp;
  /** The repository's `…/blobs/`. */
  readonly path: string;
  readonly descriptor: Pick<Descriptor, "digest" | "size">;
  readonly source: ByteSource;
  readonly signal: AbortSignal | undefined;
  isThere(): Promise<boolean>;
}

const SINGLE_REQUEST_BYTES_MAX = 64 * 1024 * 1024;

export async function uploadBlob(upload: BlobUpload): Promise<void> {
  const { http, source, signal } = upload;
  const verifier = createVerifier(upload.descriptor);
  const session: Session = { location: undefined, verifier, isVerified: false };

  for (let attempt = 1; ; attempt++) {
    try {
      // An answer may have been lost on its way to us: look before sending it all again.
      if (attempt > 1 && (await upload.isThere())) return;
      return await uploadOnce(upload, session);
    } catch (thrown) {
      const reason = thrown instanceof SourceBroke ? thrown.cause : thrown;
      const canResume = typeof source === "function" && !(thrown instanceof SourceBroke);
      const isLost = session.location !== undefined && isStale(reason);
      if (attempt >= http.attemptsMax || !canResume || !(isTransient(reason) || isLost)) {
        await cancel(upload, session);
        throw reason;
      }
      if (isLost) session.location = undefined;
      await http.pauseBefore(attempt + 1, reason, signal);
    }
  }
}

interface Session {
  location: URL | undefined;
  readonly verifier: Verifier;
  isVerified: boolean;
}

async function uploadOnce(upload: BlobUpload, session: Session): Promise<void> {
  const { http, path, descriptor, signal } = upload;
  const { size } = descriptor;
  if (session.location === undefined) {
    const begun = await http.ask({
      method: "POST",
      path: `${path}uploads/`,
      accept: [202],
      signal,
    });
    session.location = http.resolve(begun.headers.location);
    if (size <= SINGLE_REQUEST_BYTES_MAX) return finish(upload, session, 0);
  }
  const from = await offset(upload, session.location);
  if (from < size) {
    const response = await http.ask({
      method: "PATCH",
      path: session.location,
      headers: {
        "content-type": "application/octet-stream",
        "content-length": String(size - from),
        "content-range": `${from}-${size - 1}`,
      },
      body: checked(upload, session, from),
      accept: [202],
      signal,
    });
    session.location = http.resolve(response.headers.location);
  }
  await finish(upload, session, size);
}

/** The closing PUT, with whatever bytes the registry does not have yet. */
async function finish(upload: BlobUpload, session: Session, from: number): Promise<void> {
  const { http, descriptor, signal } = upload;
  const path = new URL(session.location as URL);
  path.searchParams.set("digest", descriptor.digest);
  const rest = descriptor.size - from;
  if (rest === 0) for await (const _ of checked(upload, session, from));
  await http.ask({
    method: "PUT",
    path,
    headers: { "content-type": "application/octet-stream", "content-length": String(rest) },
    ...(rest > 0 ? { body: checked(upload, session, from) } : {}),
    accept: [201],
    signal,
  });
}

/** How many bytes the registry has. */
async function offset({ http, signal }: BlobUpload, location: URL): Promise<number> {
  const response = await http.ask({ method: "GET", path: location, accept: [204], signal });
  const last = Number(/^(?:bytes=)?0-(\d+)$/.exec(response.headers["range"] as string)?.[1] ?? 0);
  // "0-0" is also what an upload without bytes says; nothing is lost by sending the first again,
  // for a registry that has it refuses the place and the upload starts anew.
  return last === 0 ? 0 : last + 1;
}

/** The source's bytes, checked before the last of them leaves, so that wrong ones never arrive whole. */
async function* checked(
  { source, descriptor }: BlobUpload,
  session: Session,
  from: number,
): AsyncGenerator<Uint8Array> {
  let at = from;
  if (session.isVerified && at === descriptor.size) return;
  try {
    for await (const chunk of openSource(source, from)) {
      session.verifier.update(chunk, at);
      at += chunk.length;
      if (at === descriptor.size) verify(session);
      yield chunk;
    }
    verify(session);
  } catch (cause) {
    throw new SourceBroke(cause);
  }
}

function verify(session: Session): void {
  if (!session.isVerified) session.verifier.finish();
  session.isVerified = true;
}

async function cancel({ http }: BlobUpload, { location }: Session): Promise<void> {
  if (location === undefined) return;
  // The upload has failed already, and for a better reason than this.
  await http
    .ask({ method: "DELETE", path: location, accept: [204, 404, 405] })
    .catch(() => undefined);
}

/** The registry no longer knows the upload, or has it at another place than we thought. */
function isStale(reason: unknown): boolean {
  const { details } = asFailure(reason);
  return details["status"] === 404 || details["status"] === 416 || details["status"] === 400;
}

/** Told apart from the registry's own trouble, which a second try may get past. */
class SourceBroke extends Error {
  constructor(cause: unknown) {
    super("the source of the upload broke", { cause });
  }
}
