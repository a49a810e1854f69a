// Becoming an agent: keys are made here, a single-use secret is spent, and the server's trust document
// is pinned if, and only if, it is the one the join string named.

import { createPublicKey } from "node:crypto";
import {
  type AgentKind,
  decodeJoinString,
  type JoinRequest,
  JoinResponse,
  type JoinString,
} from "@exclave/api";
import {
  type Envelope,
  Failure,
  firstTrust,
  Instant,
  refusePlainHttp,
  type TrustDocument,
} from "@exclave/core";
import {
  createServerFetch,
  doorFailure,
  findServerCa,
  type ProxyVariables,
  verifySignature,
} from "@exclave/machine";
import { type Identity, signWith } from "./identity.ts";
import { type JoiningKeys, makeJoiningKeys } from "./joining-keys.ts";

export const JOIN_PATH = "/v1/agents/join";

export interface JoinOptions {
  readonly joinString: string;
  readonly kind: AgentKind;
  /** Plain HTTP beyond loopback was asked for in so many words. */
  readonly insecureHttp?: boolean | undefined;
  readonly now: number;
  /** Kept from an earlier try with the same string, or new ones. */
  readonly keys?: JoiningKeys | undefined;
  /** Finds the authority of that fingerprint among the certificates that the server presents. */
  readonly findCa: (url: string, fingerprint: string) => Promise<string>;
  /** Sends the request to the server that `ca` vouches for; the answer is not trusted. */
  readonly post: (url: string, body: JoinRequest, ca: string | undefined) => Promise<JoinAnswer>;
}

export interface JoinAnswer {
  readonly status: number;
  readonly body: unknown;
}

export interface Joined {
  readonly identity: Identity;
  readonly envelope: Envelope;
  readonly document: TrustDocument;
  /** For the link, where the server speaks TLS itself. */
  readonly certificate?: string | undefined;
}

export async function joinServer(options: JoinOptions): Promise<Joined> {
  const { joinString, kind, now, post } = options;
  const join = readJoinString(joinString, kind);
  refusePlainHttp(join.url, options.insecureHttp ?? false);
  const { identityKey, sealingKey } = options.keys ?? makeJoiningKeys();
  // Before anything is said: whoever answers is held against the authority that the string names.
  const serverCa = join.caFingerprint && (await options.findCa(join.url, join.caFingerprint));

  const request = {
    secret: join.secret,
    trustDigest: join.trustDigest,
    identityKey: publicText(identityKey),
    sealingKey: publicText(sealingKey),
    proof: signWith(identityKey, Buffer.from(join.secret)),
  };
  const answer = await post(new URL(JOIN_PATH, join.url).href, request, serverCa);
  const response = readAnswer(answer, join);
  const { agent, audience, install, app, keyGeneration, trust, certificate } = response;
  const document = pinnedTrust(trust, join, now);

  const identity: Identity = {
    version: 1,
    agent,
    kind,
    audience,
    ...(install === undefined ? {} : { install }),
    ...(app === undefined ? {} : { app }),
    keyGeneration,
    serverUrl: join.url,
    ...(serverCa === undefined ? {} : { serverCa }),
    identityKey,
    sealingKey,
  };
  return { identity, envelope: trust, document, certificate };
}

function pinnedTrust(envelope: Envelope, join: JoinString, now: number): TrustDocument {
  const judged = firstTrust({
    envelope,
    digest: join.trustDigest,
    now: Instant.parse(now),
    verify: verifySignature,
  });
  if (judged.kind === "ok") return judged.document;
  throw new Failure("signature", `the server is not the one that was named: ${judged.because}`);
}

/** The two things a join says over the network, through the proxy that the machine's network wants. */
export function joinPorts(proxy: ProxyVariables | undefined): Pick<JoinOptions, "findCa" | "post"> {
  return {
    findCa: (url, fingerprint) => findServerCa(url, fingerprint, { proxy }),
    async post(url, body, ca) {
      try {
        const response = await createServerFetch({ ca, proxy })(url, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(30_000),
        });
        return { status: response.status, body: await response.json() };
      } catch (cause) {
        throw doorFailure(url, cause);
      }
    },
  };
}

function readJoinString(text: string, kind: AgentKind): JoinString {
  const join = decodeJoinString(text.trim());
  if (!join) throw new Failure("invalid", "this is not a join string");
  if (join.kind !== kind) {
    const message = `the join string is for a ${join.kind} agent, and this is a ${kind} agent`;
    throw new Failure("invalid", message);
  }
  return join;
}

function readAnswer({ status, body }: JoinAnswer, join: JoinString): JoinResponse {
  if (status !== 200 && status !== 201) {
    const detail = problemOf(body) ?? `it answered ${status}`;
    const hint = "a join string works once and for 15 minutes; make a new one if it was used";
    const code = status >= 500 ? "unavailable" : "unauthenticated";
    throw new Failure(code, `the server did not let this agent join: ${detail} (${hint})`);
  }
  const response = JoinResponse.safeParse(body);
  if (!response.success) {
    throw new Failure("invalid", "the server's answer to the join is not one we understand", {
      cause: response.error,
    });
  }
  const { kind, audience, install, app } = response.data;
  const isMeant = kind === join.kind && audience === join.audience;
  if (!isMeant || install !== join.install || app !== join.app) {
    throw new Failure("wrong_install", `the server made this the ${kind} agent of ${audience}`);
  }
  return response.data;
}

function problemOf(body: unknown): string | undefined {
  if (typeof body !== "object" || body === null) return undefined;
  const { detail, title } = body as { detail?: unknown; title?: unknown };
  return [detail, title].find((text) => typeof text === "string");
}

function publicText(privateKey: string): string {
  return createPublicKey(privateKey).export({ format: "der", type: "spki" }).toString("base64");
}
