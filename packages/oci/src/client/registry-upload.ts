// Brings one blob into a registry. A small one goes in a single request; a large one in a stream
// that, if it breaks and its source can be opened again, resumes from where the registry got to.

import { asFailure, Failure } from "@exclave/core";
import type { Descriptor } from "../content/descriptor.ts";
import { createVerifier, type Verifier } from "../content/digest.ts";
import type { Sink } from "./raw/raw-connection.ts";
import type { RegistryHttp } from "./registry-http.ts";

export interface BlobUpload {
  readonly http: RegistryHttp;
  /** The repository's `…/blobs/`. */
  readonly path: string;
  readonly descriptor: Pick<Descriptor, "digest" | "size">;
  /** Hands over the blob's bytes from an offset on. */
  readonly pour: (from: number, sink: Sink) => Promise<void>;
  /** Whether `pour` can be asked more than once. */
  readonly canResume: boolean;
  /** An upload that is open already, such as the answer to a mount that was not possible. */
  readonly location?: URL | undefined;
  readonly signal: AbortSignal | undefined;
  isThere(): Promise<boolean>;
}

const SINGLE_REQUEST_BYTES_MAX = 64 * 1024 * 1024;

export async function uploadBlob(upload: BlobUpload): Promise<void> {
  const { http, signal } = upload;
  const session: Session = {
    location: upload.location,
    isFresh: true,
    verifier: createVerifier(upload.descriptor),
    isVerified: false,
    sentBytes: 0,
    sourceFailure: undefined,
  };

  for (let attempt = 1; ; attempt++) {
    try {
      // An answer may have been lost on its way to us: look before sending it all again.
      if (attempt > 1 && (await upload.isThere())) return;
      return await uploadOnce(upload, session);
    } catch (thrown) {
      const { sourceFailure } = session;
      const reason = sourceFailure ? sourceFailure.reason : thrown;
      const isLost = session.location !== undefined && isStale(reason);
      const isWorthIt = http.mayRetry(attempt, reason) || (isLost && attempt < http.attemptsMax);
      if (!upload.canResume || sourceFailure || !isWorthIt) {
        if (session.location) await http.abandon(session.location);
        throw reason;
      }
      if (isLost) session.location = undefined;
      session.isFresh = isLost;
      await http.pauseBefore(attempt + 1, reason, signal);
    }
  }
}

interface Session {
  location: URL | undefined;
  /** Nothing was sent to it yet, so it need not be asked how far it is. */
  isFresh: boolean;
  readonly verifier: Verifier;
  isVerified: boolean;
  /** The most it can have. */
  sentBytes: number;
  /** Told apart from the registry's own trouble, which a second try may get past. */
  sourceFailure: { readonly reason: unknown } | undefined;
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
    session.isFresh = true;
  }
  const isFresh = session.isFresh;
  session.isFresh = false;
  if (isFresh && size <= SINGLE_REQUEST_BYTES_MAX) return finish(upload, session, 0);
  const from = isFresh ? 0 : await offset(upload, session);
  if (from < size) {
    const response = await http.ask({
      method: "PATCH",
      path: session.location,
      headers: {
        "content-type": "application/octet-stream",
        "content-length": String(size - from),
        "content-range": `${from}-${size - 1}`,
      },
      body: (sink) => pourChecked(upload, session, from, sink),
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
  if (rest === 0) await pourChecked(upload, session, from, async () => undefined);
  await http.ask({
    method: "PUT",
    path,
    headers: { "content-type": "application/octet-stream", "content-length": String(rest) },
    ...(rest > 0 ? { body: (sink: Sink) => pourChecked(upload, session, from, sink) } : {}),
    accept: [201],
    signal,
  });
}

/** How many bytes the registry has. */
async function offset({ http, signal }: BlobUpload, session: Session): Promise<number> {
  const path = session.location as URL;
  const response = await http.ask({ method: "GET", path, accept: [204], signal });
  if (response.headers.location) session.location = http.resolve(response.headers.location);
  const last = Number(/^(?:bytes=)?0-(\d+)$/.exec(response.headers["range"] as string)?.[1] ?? 0);
  if (last > 0 && last >= session.sentBytes) {
    throw new Failure("conflict", "the registry has more of this upload than was sent", {
      details: { status: 416 },
    });
  }
  // "0-0" is also what an upload without bytes says; nothing is lost by sending the first again,
  // for a registry that has it refuses the place and the upload starts anew.
  return last === 0 ? 0 : last + 1;
}

/** The source's bytes, checked before the last of them leaves, so that wrong ones never arrive whole. */
async function pourChecked(
  { pour, descriptor }: BlobUpload,
  session: Session,
  from: number,
  sink: Sink,
): Promise<void> {
  let at = from;
  let sinkFailure: { readonly reason: unknown } | undefined;
  if (session.isVerified && at === descriptor.size) return;
  try {
    await pour(from, async (chunk) => {
      session.verifier.update(chunk, at);
      at += chunk.length;
      session.sentBytes = Math.max(session.sentBytes, at);
      if (at === descriptor.size) verify(session);
      try {
        await sink(chunk);
      } catch (reason) {
        sinkFailure = { reason };
        throw reason;
      }
    });
    verify(session);
  } catch (reason) {
    if (!sinkFailure) session.sourceFailure = { reason };
    throw sinkFailure ? sinkFailure.reason : reason;
  }
}

function verify(session: Session): void {
  if (!session.isVerified) session.verifier.finish();
  session.isVerified = true;
}

/** The registry no longer knows the upload, or has it at another place than we thought. */
function isStale(reason: unknown): boolean {
  const { details } = asFailure(reason);
  return details["status"] === 404 || details["status"] === 416 || details["status"] === 400;
}
