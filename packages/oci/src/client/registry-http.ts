// Requests to a registry: a pool of kept-alive connections, bodies that stream both ways, proof of
// who asks, and a bounded number of tries. Large downloads go over sockets of their own.
// (`fetch` keeps whole blobs in memory.)

import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { Failure } from "@exclave/core";
import { CONNECT_TIMEOUT_MS, limitConnecting } from "./connect-timeout.ts";
import { createRawDownloads, type RawAnswer, type Sink } from "./raw-download.ts";
import { type Credentials, createRegistryAuthorizer, scopeOf } from "./registry-auth.ts";
import {
  failureOf,
  isSilent,
  isTransient,
  REFUSAL_BYTES_MAX,
  readAll,
  refusalFailure,
  silentFailure,
  unreachableFailure,
} from "./registry-failure.ts";
import { createPace, type Pace } from "./registry-pace.ts";
import { type Pour, sendBody } from "./send-body.ts";
import { trustIn } from "./tls-trust.ts";

export interface RegistryHttpOptions {
  /** Origin of the registry, such as `https://registry.example.com`. */
  readonly url: string;
  /** A bearer token, or a function that has a fresh one. */
  readonly token?: string | (() => Promise<string>) | undefined;
  /** Asked when the registry wants to know who we are and no token was given. */
  readonly credentials?: Credentials | undefined;
  /**
   * Where else this registry may send us, for content and for tokens: these origins and its own. Without
   * a list it may send us anywhere.
   */
  readonly origins?: readonly string[] | undefined;
  /** Certificates in PEM that vouch for the registry, instead of the usual ones. */
  readonly ca?: string | Buffer | undefined;
  readonly attemptsMax?: number;
  /** Pause before the second try; doubles with each further one. */
  readonly backoffMs?: number;
  readonly idleTimeoutMs?: number;
  readonly connectTimeoutMs?: number;
}

export interface RegistryRequest {
  readonly method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** A path of this registry, or an address it gave us. */
  readonly path: string | URL;
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array | Pour;
  /** Statuses that are an answer; any other one is a failure. */
  readonly accept: readonly number[];
  /** Fewer tries than usual. */
  readonly attemptsMax?: number;
  readonly signal?: AbortSignal | undefined;
}

export interface RegistryHttp extends Pick<Pace, "pauseBefore" | "onThrottle"> {
  /** One answer whose body is for the caller to read. Retries, unless the body is poured. */
  send(request: RegistryRequest): Promise<IncomingMessage>;
  /** The same, for answers whose body does not matter. */
  ask(request: RegistryRequest): Promise<IncomingMessage>;
  /** A small body, as a whole within the time a registry may be silent: one that trickles in is never silent. */
  readAll(response: IncomingMessage, bytesMax: number): Promise<Uint8Array>;
  /** One try at a GET, its body poured out; returns the status. */
  download(request: Download, sink: (status: number) => Sink): Promise<number>;
  /** Whether to retry after that many tries and this end of the last one. */
  mayRetry(attempt: number, reason: unknown): boolean;
  resolve(location: string | undefined): URL;
  /** Closes an upload that nobody is going to use: one short try, which may fail. */
  abandon(path: URL): Promise<void>;
  /** Requests sent since the client was made. */
  readonly requests: number;
  readonly attemptsMax: number;
  close(): void;
}

export type Download = Omit<RegistryRequest, "method" | "body">;

/** The header that says who asks, if any. */
type Proof = { readonly authorization?: string };

const REDIRECTS_MAX = 5;
/** A host that has nothing to say is not asked as often as one that is in trouble. */
const SILENT_ATTEMPTS_MAX = 2;
const ABANDON_MS_MAX = 3_000;

export function createRegistryHttp(options: RegistryHttpOptions): RegistryHttp {
  const { attemptsMax = 5, backoffMs = 200, idleTimeoutMs = 120_000, ca } = options;
  const { connectTimeoutMs = CONNECT_TIMEOUT_MS } = options;
  const base = new URL(options.url);
  const pool = { keepAlive: true, maxSockets: 32, ...trustIn(ca) };
  const agents = { "http:": new http.Agent(pool), "https:": new https.Agent(pool) };
  const downloads = createRawDownloads({ ca, idleTimeoutMs, connectTimeoutMs });
  const authorizer = createRegistryAuthorizer({ ...options, base });
  const { pauseBefore, untilQuiet, onThrottle } = createPace({ backoffMs });
  let requests = 0;

  return {
    send,
    ask,
    readAll: (response, bytesMax) => readAll(response, { bytesMax, timeoutMs: idleTimeoutMs }),
    download,
    mayRetry,
    pauseBefore,
    resolve,
    abandon,
    onThrottle,
    attemptsMax,
    close,
    get requests() {
      return requests;
    },
  };

  async function send(request: RegistryRequest): Promise<IncomingMessage> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await sendOnce(request);
      } catch (reason) {
        const canRepeat =
          typeof request.body !== "function" && attempt < (request.attemptsMax ?? attemptsMax);
        if (!canRepeat || !mayRetry(attempt, reason)) throw reason;
        await pauseBefore(attempt + 1, reason, request.signal);
      }
    }
  }

  function mayRetry(attempt: number, reason: unknown): boolean {
    const most = isSilent(reason) ? Math.min(SILENT_ATTEMPTS_MAX, attemptsMax) : attemptsMax;
    return isTransient(reason) && attempt < most;
  }

  async function ask(request: RegistryRequest): Promise<IncomingMessage> {
    const response = await send(request);
    response.resume();
    return response;
  }

  async function sendOnce(request: RegistryRequest): Promise<IncomingMessage> {
    let url = new URL(request.path, base);
    let isChallenged = false;
    for (let redirects = 0; redirects <= REDIRECTS_MAX; ) {
      const proof = await authorization(url, request.method);
      const response = await exchange(url, request, proof);
      const status = response.statusCode ?? 0;
      if (request.accept.includes(status)) return response;
      if (status === 401 && !isChallenged && (await isLetIn(response, url, request, proof))) {
        isChallenged = true;
        response.resume();
        // What was poured out is gone; with the new token the caller can begin again.
        if (typeof request.body === "function") throw outdatedToken(url);
        continue;
      }
      const isRead = request.method === "GET" || request.method === "HEAD";
      if (!isRead || status < 300 || status >= 400 || !response.headers.location) {
        throw await failureOf(response, request, url, idleTimeoutMs);
      }
      response.resume();
      url = sentTo(response.headers.location, url);
      redirects++;
    }
    throw new Failure("unavailable", `${base.host} redirects in circles`);
  }

  async function isLetIn(
    response: IncomingMessage,
    url: URL,
    { method, signal }: RegistryRequest,
    { authorization: sent }: Proof,
  ): Promise<boolean> {
    if (url.origin !== base.origin) return false;
    const wanted = response.headers["www-authenticate"];
    return authorizer.challenged({ wanted, scope: scopeOf(method, url), sent, signal });
  }

  /** The token is for this registry, not for the storage it may send us to. */
  async function authorization(url: URL, method: string): Promise<Proof> {
    if (url.origin !== base.origin) return {};
    const header = await authorizer.header(scopeOf(method, url));
    return header === undefined ? {} : { authorization: header };
  }

  async function exchange(
    url: URL,
    request: RegistryRequest,
    proof: Proof,
  ): Promise<IncomingMessage> {
    const { method, body, signal } = request;
    const isSecure = url.protocol === "https:";
    const headers: Record<string, string> = { ...request.headers, ...proof };
    if (body instanceof Uint8Array) headers["content-length"] = String(body.length);
    else if (body === undefined && method !== "GET" && method !== "HEAD") {
      headers["content-length"] = "0";
    }
    await untilQuiet(signal);
    requests++;
    const outgoing = (isSecure ? https : http).request(url, {
      method,
      headers,
      agent: agents[isSecure ? "https:" : "http:"],
      ...(signal ? { signal } : {}),
    });
    outgoing.setTimeout(idleTimeoutMs, () => {
      outgoing.destroy(silentFailure(url));
    });
    outgoing.once("socket", (socket) => limitConnecting(socket, url, connectTimeoutMs));
    limitHeader(outgoing, url, idleTimeoutMs);
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.once("response", resolve);
      outgoing.on("error", (reason) => reject(unreachableFailure(reason, url, signal)));
    });
    if (typeof body !== "function") {
      outgoing.end(body);
      return answered;
    }
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

  async function download(request: Download, sink: (status: number) => Sink): Promise<number> {
    const answer = await getRaw(request);
    if (answer) {
      await answer.pour(sink(answer.status));
      return answer.status;
    }
    const response = await sendOnce({ ...request, method: "GET" });
    const status = response.statusCode ?? 0;
    const take = sink(status);
    for await (const chunk of bodyOf(response, base, request.signal)) await take(chunk);
    return status;
  }

  /** Undefined if what came back is not simply a body of known length. */
  async function getRaw({ path, headers, signal }: Download): Promise<RawAnswer | undefined> {
    let url = new URL(path, base);
    for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
      await untilQuiet(signal);
      requests++;
      const sent = { ...headers, ...(await authorization(url, "GET")) };
      const answer = await downloads.get(url, sent, signal).catch((reason: unknown) => {
        throw unreachableFailure(reason, url, signal);
      });
      const isBody = answer.status === 200 || answer.status === 206;
      if (isBody && answer.length !== undefined) return answer;
      if (answer.status === 429 || answer.status >= 500) throw await rawFailure(answer, url);
      answer.drop();
      const { location } = answer.headers;
      if (answer.status < 300 || answer.status >= 400 || location === undefined) return undefined;
      url = sentTo(location, url);
    }
    return undefined;
  }

  async function abandon(path: URL): Promise<void> {
    // Whatever it was for has ended already, and for a better reason than this.
    const signal = AbortSignal.timeout(ABANDON_MS_MAX);
    const accept = [204, 404, 405];
    await ask({ method: "DELETE", path, accept, attemptsMax: 1, signal }).catch(() => undefined);
  }

  function resolve(location: string | undefined): URL {
    if (location === undefined) {
      throw new Failure("unavailable", `${base.host} did not say where the upload goes`);
    }
    return sentTo(location, base);
  }

  function sentTo(location: string, from: URL): URL {
    const url = redirected(location, from);
    if (mayGoTo(url, base, options.origins)) return url;
    throw new Failure(
      "forbidden",
      `${base.host} sends us to ${url.origin}, which is not the vendor's`,
    );
  }

  function close(): void {
    agents["http:"].destroy();
    agents["https:"].destroy();
    downloads.close();
  }
}

/** From the request's last byte to the answer's first line and headers, as a whole. */
function limitHeader(outgoing: http.ClientRequest, url: URL, timeoutMs: number): void {
  let timer: NodeJS.Timeout | undefined;
  outgoing.once("finish", () => {
    timer = setTimeout(() => outgoing.destroy(silentFailure(url)), timeoutMs);
  });
  for (const event of ["response", "close"]) outgoing.once(event, () => clearTimeout(timer));
}

/** Where an answer sends us: an address that HTTP can be spoken to, or the answer is a broken one. */
function redirected(location: string, from: URL): URL {
  const url = URL.canParse(location, from.href) ? new URL(location, from) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return url;
  throw new Failure("unavailable", `${from.host} names an address that is none`);
}

async function* bodyOf(
  response: IncomingMessage,
  url: URL,
  signal: AbortSignal | undefined,
): AsyncIterable<Buffer> {
  try {
    yield* response as AsyncIterable<Buffer>;
  } catch (reason) {
    throw unreachableFailure(reason, url, signal);
  }
}

/** Its own origin, or one that was named; anywhere when none were. */
export function mayGoTo(url: URL, base: URL, origins: readonly string[] | undefined): boolean {
  return origins === undefined || url.origin === base.origin || origins.includes(url.origin);
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

function outdatedToken(url: URL): Failure {
  return new Failure("unavailable", `${url.host} wanted a new token in the middle of an upload`);
}
