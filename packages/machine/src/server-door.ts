// The way to the server: over TLS held against the authority that was pinned, through the proxy that the
// machine's network wants. Everything that dials the server goes through here.

import type { X509Certificate } from "node:crypto";
import type { ClientRequest, IncomingMessage } from "node:http";
import https from "node:https";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { TLSSocket } from "node:tls";
import { Failure, isLoopback } from "@exclave/core";
import { caFingerprint } from "./ca-fingerprint.ts";

/** `HTTPS_PROXY` and `NO_PROXY` of an environment, by the names Node knows them. */
export interface ProxyVariables {
  readonly HTTPS_PROXY: string;
  readonly NO_PROXY: string;
}

export interface ServerDoor {
  /** Certificates in PEM that vouch for the server, instead of the machine's roots. */
  readonly ca?: string | undefined;
  readonly proxy?: ProxyVariables | undefined;
  /** Shown to a server that asks who is there; in PEM. */
  readonly own?: { readonly cert: string; readonly key: string } | undefined;
  /** Told once what a server shows that was taken for the one that was named. */
  readonly onPresented?: ((chain: readonly X509Certificate[]) => void) | undefined;
}

export interface FetchInit {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array>;
  readonly signal?: AbortSignal;
}

/** As much of `fetch` as is used on the server; redirects are not followed. */
export type ServerFetch = (url: string, init?: FetchInit) => Promise<Response>;

const CONNECT_MS_MAX = 20_000;
const NO_BODY = new Set([204, 205, 304]);

export function proxyIn(
  environment: Readonly<Record<string, string | undefined>>,
): ProxyVariables | undefined {
  const { HTTPS_PROXY, https_proxy, NO_PROXY, no_proxy } = environment;
  const proxy = https_proxy || HTTPS_PROXY;
  return proxy ? { HTTPS_PROXY: proxy, NO_PROXY: no_proxy || NO_PROXY || "" } : undefined;
}

/** Whether a proxy stands between here and there. Nothing on this machine is reached through one. */
export function isProxied(url: URL | string, proxy: ProxyVariables | undefined): boolean {
  const { protocol, hostname } = new URL(url);
  return proxy !== undefined && /^(https|wss):$/.test(protocol) && !isLoopback(hostname);
}

export function createDoorAgent(url: URL | string, { ca, proxy, own }: ServerDoor): https.Agent {
  return new https.Agent({
    keepAlive: true,
    minVersion: "TLSv1.2",
    ...(ca === undefined ? {} : { ca, minVersion: "TLSv1.3" }),
    ...own,
    ...(isProxied(url, proxy) && { proxyEnv: { ...proxy } }),
  });
}

export function createServerFetch(door: ServerDoor): ServerFetch {
  const agents = new Map<string, https.Agent>();
  return (url, init = {}) => {
    // Without TLS there is nothing to pin and no tunnel to ask for.
    if (!url.startsWith("https:")) return fetch(url, { redirect: "manual", ...plainInit(init) });
    const { origin } = new URL(url);
    const known = agents.get(origin);
    const agent = known ?? createDoorAgent(url, door);
    agents.set(origin, agent);
    return request(url, init, agent, known ? undefined : door.onPresented);
  };
}

function plainInit({ body, ...init }: FetchInit): RequestInit {
  if (body === undefined) return init;
  return { ...init, body: body as never, ...(isStream(body) && { duplex: "half" }) };
}

async function request(
  url: string,
  init: FetchInit,
  agent: https.Agent,
  onPresented: ServerDoor["onPresented"],
): Promise<Response> {
  const { method = "GET", headers = {}, body, signal } = init;
  const length =
    body === undefined || isStream(body) ? {} : { "content-length": `${Buffer.byteLength(body)}` };
  const outgoing = https.request(url, {
    method,
    headers: { ...length, ...headers },
    agent,
    ...(signal ? { signal } : {}),
  });
  limitConnecting(outgoing);
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once("response", resolve);
    outgoing.on("error", reject);
  });
  if (!isStream(body)) outgoing.end(body);
  // What breaks the body breaks the request, and an answer that comes before its end is an answer.
  else pipeline(Readable.from(body), outgoing).catch(() => undefined);
  const response = await answered;
  onPresented?.(chainOf(response));
  const status = response.statusCode ?? 0;
  if (NO_BODY.has(status)) response.resume();
  return new Response(NO_BODY.has(status) ? null : (Readable.toWeb(response) as ReadableStream), {
    status,
    headers: Object.entries(response.headersDistinct).flatMap(([name, values = []]) =>
      values.map((value): [string, string] => [name, value]),
    ),
  });
}

function isStream(body: FetchInit["body"]): body is AsyncIterable<Uint8Array> {
  return body !== undefined && typeof body !== "string" && !(body instanceof Uint8Array);
}

function limitConnecting(outgoing: ClientRequest): void {
  const late = () => outgoing.destroy(new Error("the connection was not made in time"));
  const timer = setTimeout(late, CONNECT_MS_MAX);
  const calmDown = () => clearTimeout(timer);
  outgoing.once("socket", (socket) => {
    if (!socket.connecting) return calmDown();
    socket.once("secureConnect", calmDown);
  });
  outgoing.once("close", calmDown);
}

interface FindCaOptions extends Pick<ServerDoor, "proxy"> {
  /** From the dial to the answer: whoever is there may never say a word. */
  readonly withinMs?: number;
}

/**
 * The certificate of the authority with this fingerprint, as the server presents it. Asked over a connection
 * that nothing vouches for yet, on which nothing is said: whoever answers is believed only that
 * certificate, and only because its key is the one that was named.
 */
export async function findServerCa(
  url: string,
  fingerprint: string,
  { proxy, withinMs = CONNECT_MS_MAX }: FindCaOptions = {},
): Promise<string> {
  const agent = new https.Agent({
    rejectUnauthorized: false,
    minVersion: "TLSv1.3",
    ...(isProxied(url, proxy) && { proxyEnv: { ...proxy } }),
  });
  try {
    const signal = AbortSignal.timeout(withinMs);
    const chain = await presentedChain(new URL("/healthz", url).href, agent, signal);
    const found = chain.filter((one) => one.ca && caFingerprint(one) === fingerprint);
    const authority = found.find((one) => one.checkIssued(one)) ?? found[0];
    if (authority) return authority.toString();
    throw new Failure(
      "unauthenticated",
      `the server at ${url} is not the one that was named: no certificate it presents is of the ` +
        `authority ${fingerprint}`,
    );
  } finally {
    agent.destroy();
  }
}

function presentedChain(
  url: string,
  agent: https.Agent,
  signal: AbortSignal,
): Promise<X509Certificate[]> {
  return new Promise((resolve, reject) => {
    const outgoing = https.request(url, { method: "HEAD", agent, signal });
    outgoing.once("response", (response) => {
      const chain = chainOf(response);
      response.destroy();
      resolve(chain);
    });
    outgoing.on("error", (cause) => reject(doorFailure(url, cause)));
    outgoing.end();
  });
}

const CHAIN_MAX = 8;

function chainOf({ socket }: IncomingMessage): X509Certificate[] {
  const chain: X509Certificate[] = [];
  let next = (socket as TLSSocket).getPeerX509Certificate();
  for (; next && chain.length < CHAIN_MAX; next = next.issuerCertificate) {
    // Also past one that vouches for itself: while an authority is replaced, both are shown.
    chain.push(next);
  }
  return chain;
}

/** What went wrong on the way, in a sentence that says what to do where something can be done. */
export function doorFailure(url: string, cause: unknown): Failure {
  const because = certificateProblem(cause);
  if (because === undefined)
    return new Failure("unavailable", `cannot reach the server at ${url}`, { cause });
  const message = `the server at ${url} is not taken for the one that was named: ${because}`;
  return new Failure("unauthenticated", message, { cause });
}

/** Why a certificate was refused; undefined when the trouble is another. */
export function certificateProblem(reason: unknown): string | undefined {
  const { code, cause } = (reason ?? {}) as { code?: unknown; cause?: unknown };
  const known = typeof code === "string" ? PROBLEMS[code] : undefined;
  if (known !== undefined) return known;
  return cause === undefined || cause === reason ? undefined : certificateProblem(cause);
}

const STRANGE = "its certificate is not by an authority that is trusted here";
const PROBLEMS: Readonly<Record<string, string>> = {
  SELF_SIGNED_CERT_IN_CHAIN: STRANGE,
  DEPTH_ZERO_SELF_SIGNED_CERT: STRANGE,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: STRANGE,
  UNABLE_TO_GET_ISSUER_CERT: STRANGE,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: STRANGE,
  CERT_SIGNATURE_FAILURE: STRANGE,
  CERT_HAS_EXPIRED: "its certificate has expired, or this machine's clock is ahead",
  CERT_NOT_YET_VALID: "its certificate is not valid yet, or this machine's clock is behind",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another host name",
};
