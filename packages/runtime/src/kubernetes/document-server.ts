// The one thing an agent in a cluster listens for: jobs that fetch their files. HTTPS with a certificate the agent made,
// whose authority is told to each job in its Job. A request is a GET with a token, and is bounded in everything.

import { generateKeyPairSync, randomBytes, X509Certificate } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import { type AddressInfo, isIP } from "node:net";
import { join } from "node:path";
import { asFailure } from "@exclave/core";
import { makeCertificate, readIfThere, writeDurably } from "@exclave/machine";
import type { DocumentDesk } from "./document-desk.ts";

export const DOCUMENT_PATH = "/v1/document";

export interface DocumentServer {
  readonly port: number;
  close(): Promise<void>;
}

export interface DocumentServerOptions {
  readonly desk: DocumentDesk;
  readonly certificate: DocumentCertificate;
  readonly host: string;
  readonly port: number;
  readonly onRefused?: (because: string) => void;
  /** A request that takes longer is cut off. */
  readonly requestMs?: number;
}

const TOKEN_BYTES_MAX = 8 * 1024;
const HEADER_BYTES_MAX = 16 * 1024;
const CONNECTIONS_MAX = 128;
/** Each asks the cluster who it is. */
const REVIEWS_MAX = 16;
const REQUEST_MS = 10_000;

export async function serveDocuments(options: DocumentServerOptions): Promise<DocumentServer> {
  const { desk, certificate, onRefused, requestMs = REQUEST_MS } = options;
  let reviews = 0;
  const server = createServer(
    {
      cert: certificate.cert,
      key: certificate.key,
      minVersion: "TLSv1.3",
      maxHeaderSize: HEADER_BYTES_MAX,
      handshakeTimeout: requestMs,
      headersTimeout: requestMs,
      requestTimeout: requestMs,
      keepAliveTimeout: 1,
      connectionsCheckingInterval: Math.ceil(requestMs / 10),
    },
    (request, response) => void answer(request, response),
  );
  server.maxConnections = CONNECTIONS_MAX;
  server.maxRequestsPerSocket = 1;
  // One that does not read its answer is let go as well.
  server.setTimeout(2 * requestMs);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const token = tokenOf(request);
    if (request.method !== "GET" || request.url !== DOCUMENT_PATH || hasBody(request)) {
      return refuse(response, 404, "there is one thing to be had here, by GET");
    }
    if (token === undefined) return refuse(response, 401, "a bearer token is missing");
    if (reviews >= REVIEWS_MAX) return refuse(response, 503, "too many ask at once");
    reviews += 1;
    try {
      const handed = await desk.handOut(token);
      if (handed.kind === "refused") return refuse(response, handed.status, handed.because);
      response.writeHead(200, { "content-type": "application/json", "cache-control": "no-store" });
      response.end(JSON.stringify({ files: handed.files }));
    } catch (reason) {
      onRefused?.(asFailure(reason).message);
      refuse(response, 503, "the cluster cannot be asked who this is");
    } finally {
      reviews -= 1;
    }
  }

  function refuse(response: ServerResponse, status: number, because: string): void {
    onRefused?.(because);
    response.writeHead(status, { "content-type": "application/json", connection: "close" });
    response.end(JSON.stringify({ because }));
  }
}

function tokenOf({ headers }: IncomingMessage): string | undefined {
  const [, token] = /^Bearer ([\x21-\x7e]+)$/.exec(headers.authorization ?? "") ?? [];
  return token !== undefined && token.length <= TOKEN_BYTES_MAX ? token : undefined;
}

function hasBody({ headers }: IncomingMessage): boolean {
  const isEmpty = headers["content-length"] === undefined || headers["content-length"] === "0";
  return !isEmpty || headers["transfer-encoding"] !== undefined;
}

export interface DocumentCertificate {
  readonly cert: string;
  readonly key: string;
  /** Who vouches for it: told to jobs. */
  readonly ca: string;
}

const YEAR_MS = 365 * 86_400_000;
const LIFE_MS = 10 * YEAR_MS;

/**
 * Made once and kept: a job that was started by an earlier life of the agent knows its authority. It holds
 * for ten years and for these names alone; other names make another one.
 */
export async function openDocumentCertificate(
  directory: string,
  hosts: readonly string[],
  now: number,
): Promise<DocumentCertificate> {
  const file = join(directory, "document-certificate.json");
  const kept = await readIfThere(file);
  if (kept !== undefined) {
    const certificate = JSON.parse(kept) as DocumentCertificate;
    if (covers(certificate, hosts, now)) return certificate;
  }
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const own = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const validity = { notBefore: now - 3_600_000, notAfter: now + LIFE_MS };
  const ca = makeCertificate(
    {
      about: { kind: "authority" },
      name: "Exclave job documents",
      key: publicKey,
      serial: serial(),
      ...validity,
    },
    { privateKey },
  );
  const leaf = makeCertificate(
    {
      about: { kind: "server", hosts },
      name: "Exclave agent",
      key: own.publicKey,
      serial: serial(),
      ...validity,
    },
    { privateKey, certificate: ca },
  );
  const made = {
    cert: leaf.toString(),
    key: own.privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    ca: ca.toString(),
  };
  await writeDurably(file, JSON.stringify(made));
  return made;
}

function covers({ cert }: DocumentCertificate, hosts: readonly string[], now: number): boolean {
  const leaf = new X509Certificate(cert);
  const isValid = Date.parse(leaf.validTo) - now > YEAR_MS;
  return isValid && hosts.every((host) => (isIP(host) ? leaf.checkIP(host) : leaf.checkHost(host)));
}

/** Positive, whatever the first bit would be. */
function serial(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes;
}
