// One request and its answer: over a pool of kept-alive connections, with bodies that stream both ways.
// (`fetch` keeps whole blobs in memory.)

import http, { type ClientRequest, type IncomingMessage } from "node:http";
import https from "node:https";
import { limitConnecting } from "./connect-timeout.ts";
import { silentFailure, unreachableFailure } from "./registry-failure.ts";
import { type Pour, sendBody } from "./send-body.ts";
import { type SocketRoute, socketTo } from "./socket-route.ts";
import { trustIn } from "./tls-trust.ts";

export interface HttpExchanges {
  /** Fails when there is no answer at all; any status is one. */
  exchange(url: URL, request: ExchangedRequest): Promise<IncomingMessage>;
  close(): void;
}

export interface ExchangedRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | Pour | undefined;
  readonly signal?: AbortSignal | undefined;
}

export function createHttpExchanges(options: {
  readonly ca?: string | Buffer | undefined;
  readonly route?: SocketRoute | undefined;
  readonly idleTimeoutMs: number;
  readonly connectTimeoutMs: number;
}): HttpExchanges {
  const { ca, route, idleTimeoutMs, connectTimeoutMs } = options;
  const pool = { keepAlive: true, maxSockets: 32, ...trustIn(ca) };
  const agents = { "http:": new http.Agent(pool), "https:": new https.Agent(pool) };

  return {
    exchange,
    close() {
      agents["http:"].destroy();
      agents["https:"].destroy();
    },
  };

  async function exchange(url: URL, request: ExchangedRequest): Promise<IncomingMessage> {
    const { body, signal } = request;
    const outgoing = open(url, request);
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.once("response", resolve);
      outgoing.on("error", (reason) => reject(unreachableFailure(reason, url, signal)));
    });
    if (typeof body === "function") return pourAndAwait(outgoing, body, answered, url, signal);
    outgoing.end(body);
    return answered;
  }

  function open(url: URL, { method, headers, body, signal }: ExchangedRequest): ClientRequest {
    const isSecure = url.protocol === "https:";
    const socketPath = socketTo(url, route);
    const outgoing = (isSecure ? https : http).request(url, {
      method,
      headers: { ...headers, ...lengthOf(method, body) },
      agent: agents[isSecure ? "https:" : "http:"],
      ...(socketPath !== undefined && { socketPath }),
      ...(signal ? { signal } : {}),
    });
    outgoing.setTimeout(idleTimeoutMs, () => {
      outgoing.destroy(silentFailure(url));
    });
    outgoing.once("socket", (socket) => limitConnecting(socket, url, connectTimeoutMs));
    limitHeader(outgoing, url, idleTimeoutMs);
    return outgoing;
  }
}

async function pourAndAwait(
  outgoing: ClientRequest,
  body: Pour,
  answered: Promise<IncomingMessage>,
  url: URL,
  signal: AbortSignal | undefined,
): Promise<IncomingMessage> {
  const sent = sendBody(outgoing, body);
  const isSent = sent.then(() => answered);
  isSent.catch(() => undefined);
  try {
    // Whichever comes first: a source that breaks, or an answer.
    const response = await Promise.race([answered, isSent]);
    // An answer before the end of the body is a refusal; the connection is of no further use.
    if (!outgoing.writableEnded) response.once("end", () => outgoing.destroy());
    return response;
  } catch (reason) {
    outgoing.destroy();
    // The buffers that are poured from are not free before the last of them is let go.
    await sent.catch(() => undefined);
    throw unreachableFailure(reason, url, signal);
  }
}

/** What is poured has said its length in the headers already. */
function lengthOf(method: string, body: ExchangedRequest["body"]): Record<string, string> {
  if (body instanceof Uint8Array) return { "content-length": String(body.length) };
  const isEmpty = body === undefined && method !== "GET" && method !== "HEAD";
  return isEmpty ? { "content-length": "0" } : {};
}

/** From the request's last byte to the answer's first line and headers, as a whole. */
function limitHeader(outgoing: ClientRequest, url: URL, timeoutMs: number): void {
  let timer: NodeJS.Timeout | undefined;
  outgoing.once("finish", () => {
    timer = setTimeout(() => outgoing.destroy(silentFailure(url)), timeoutMs);
  });
  for (const event of ["response", "close"]) outgoing.once(event, () => clearTimeout(timer));
}
