// The embedded registry: an OCI Distribution server over a directory, for development and for
// sandboxes without a cloud registry. It answers requests of whatever HTTP server it is put into.

import type { IncomingMessage, ServerResponse } from "node:http";
import { Failure } from "@exclave/core";
import { diskFailure } from "@exclave/machine";
import type { ObjectStore } from "../objects/object-store.ts";
import { type Caller, createAuthorizer, type RegistryAuth } from "./authorize.ts";
import { handleBlob, handleUpload, handleUploads } from "./blobs.ts";
import { createOwnership } from "./claim-directory.ts";
import { answer, answerJson, type Exchange } from "./exchange.ts";
import { createRegistryFiles } from "./files/registry-files.ts";
import { startCollection } from "./garbage/collection.ts";
import { handleManifest, handleReferrers, handleTags } from "./manifests.ts";
import { createQuarantine } from "./quarantine.ts";
import { createReach } from "./reach.ts";
import { RegistryError } from "./registry-error.ts";
import { checkMethod, parseRoute, parseTarget, type Route } from "./route.ts";
import { createUploads } from "./upload/uploads.ts";

export interface Registry {
  /**
   * Takes the directory and sweeps away what another registry left unfinished there; fails while that
   * one still runs. A request does the same, so that only who wants to know early has to ask.
   */
  open(): Promise<void>;
  /** Answers one request, whatever happens; never rejects. */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
  /** Drops uploads under way and lets go of the directory. Content stays. */
  close(): Promise<void>;
}

/** What whoever runs a registry wants to say about who uses it, and how much. */
export interface RegistryGate {
  /** The token of this caller is one of ours. Resolves when it is their turn; a RegistryError refuses them. */
  enter(subject: string, exchange: Pick<Exchange, "request" | "response">): Promise<void>;
  /** Told of what was refused before that is answered; what comes back is answered. May take its time. */
  refused(refusal: RegistryRefusal): Promise<RegistryError>;
}

export interface RegistryRefusal {
  readonly error: RegistryError;
  readonly request: IncomingMessage;
  readonly route: Route["kind"];
  /** Who, if their token is one of ours. */
  readonly subject: string | undefined;
}

export interface RegistryOptions {
  /** Belongs to one registry at a time unless it is shared; collecting garbage in it is open to all. */
  readonly directory: string;
  /** Where content and links lie instead of in the directory, which has uploads under way alone. Open to several registries. */
  readonly objects?: ObjectStore | undefined;
  /** Others serve the directory beside this one. An upload goes on where it was begun, and nowhere else. */
  readonly isShared?: boolean;
  readonly auth: RegistryAuth;
  readonly now?: () => number;
  /** Told of failures that are the registry's own fault. */
  readonly onError?: (reason: unknown) => void;
  /**
   * Takes a manifest before its blobs, as the specification allows. Off unless asked for: what lies
   * in a registry that deploys draw from is whole.
   */
  readonly mayLackBlobs?: boolean;
  /** Everybody is let in at once unless given. */
  readonly gate?: RegistryGate;
  /** How often garbage is collected, and how long what nothing needs is left alone before. */
  readonly collect?: { readonly everyMs?: number; readonly graceMs?: number };
}

export function createRegistry(options: RegistryOptions): Registry {
  const {
    directory,
    objects,
    auth,
    now = Date.now,
    onError = () => undefined,
    mayLackBlobs = false,
  } = options;
  const files = createRegistryFiles(directory, objects);
  const uploads = createUploads(files.blobs, now);
  const quarantine = createQuarantine({
    files,
    now,
    onDamage: (digest) =>
      onError(new Failure("unavailable", `${digest} was damaged on disk and is quarantined`)),
  });
  const authorizer = createAuthorizer(auth, { reach: createReach(files), now });
  const ownership = createOwnership(directory, () => files.blobs.sweep(), options);
  const collection = startCollection({ files, uploads, now, onError, ...options.collect });

  return { open: () => ownership.take(), handle, close };

  async function close(): Promise<void> {
    collection.stop();
    const claim = await ownership.settled();
    await uploads.close();
    claim?.release();
    // Beside this, the next registry can be at work already.
    await collection.done();
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await ownership.take();
      await dispatch(request, response);
    } catch (reason) {
      const error = asRegistryError(diskFailure(reason));
      const isGone = response.destroyed || (request.destroyed && !request.complete);
      if (isGone || response.headersSent) {
        response.destroy();
        return;
      }
      if (error.status >= 500) onError(reason);
      const headers = { "content-type": "application/json", ...error.headers };
      answer(response, error.status, headers, error.body);
    }
  }

  async function admit(
    request: IncomingMessage,
    response: ServerResponse,
    route: Route,
  ): Promise<Caller> {
    const { gate } = options;
    let subject: string | undefined;
    try {
      const claims = await authorizer.identify(request, route);
      subject = claims?.sub;
      // Before what the token opens is looked up, which can mean many files.
      if (subject !== undefined) await gate?.enter(subject, { request, response });
      return await authorizer.permit(claims, request.method ?? "GET", route);
    } catch (error) {
      if (!gate || !(error instanceof RegistryError)) throw error;
      throw await gate.refused({ error, request, route: route.kind, subject });
    }
  }

  async function dispatch(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = parseTarget(request.url ?? "/");
    response.setHeader("docker-distribution-api-version", "registry/2.0");
    const route = parseRoute(url.pathname);
    const caller = await admit(request, response, route);
    checkMethod(route, request.method);
    const query = url.searchParams;
    const parts = { files, uploads, quarantine, mayLackBlobs };
    const exchange = { request, response, query, caller, ...parts };
    switch (route.kind) {
      case "base":
        return answerJson(response, {});
      case "blob":
        return handleBlob(exchange, route.repository, route.digest);
      case "uploads":
        return handleUploads(exchange, route.repository);
      case "upload":
        return handleUpload(exchange, route.repository, route.upload);
      case "manifest":
        return handleManifest(exchange, route.repository, route.reference);
      case "tags":
        return handleTags(exchange, route.repository);
      case "referrers":
        return handleReferrers(exchange, route.repository, route.digest);
    }
  }
}

function asRegistryError(reason: unknown): RegistryError {
  if (reason instanceof RegistryError) return reason;
  if (reason instanceof Failure && reason.code === "disk_full") {
    return new RegistryError("UNKNOWN", reason.message, { status: 507, cause: reason });
  }
  return new RegistryError("UNKNOWN", "the registry failed", { cause: reason });
}
