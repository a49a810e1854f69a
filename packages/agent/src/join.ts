// Becoming an agent: keys are made here, a single-use secret is spent, and the server's keys are
// pinned if, and only if, they are the ones the join string named.

import { createHash, generateKeyPairSync, type KeyObject } from "node:crypto";
import {
  type AgentKind,
  decodeJoinString,
  type JoinRequest,
  JoinResponse,
  type JoinString,
} from "@exclave/api";
import { canonicalBytes, Failure } from "@exclave/core";
import { type Identity, signWith } from "./identity.ts";

export const JOIN_PATH = "/v1/agents/join";

export interface JoinOptions {
  readonly joinString: string;
  readonly kind: AgentKind;
  /** Sends the request to the server; the answer is not trusted. */
  readonly post: (url: string, body: JoinRequest) => Promise<JoinAnswer>;
}

export interface JoinAnswer {
  readonly status: number;
  readonly body: unknown;
}

export async function joinServer({ joinString, kind, post }: JoinOptions): Promise<Identity> {
  const join = readJoinString(joinString, kind);
  const identityKeys = generateKeyPairSync("ed25519");
  const sealingKeys = generateKeyPairSync("x25519");

  const answer = await post(new URL(JOIN_PATH, join.url).href, {
    secret: join.secret,
    identityKey: publicText(identityKeys.publicKey),
    sealingKey: publicText(sealingKeys.publicKey),
    proof: signWith(identityKeys.privateKey, Buffer.from(join.secret)),
  });
  const { agent, audience, keyGeneration, keys } = readAnswer(answer, join);

  return {
    version: 1,
    agent,
    kind,
    audience,
    keyGeneration,
    serverUrl: join.url,
    keys,
    identityKey: privateText(identityKeys.privateKey),
    sealingKey: privateText(sealingKeys.privateKey),
  };
}

export async function postJoin(url: string, body: JoinRequest): Promise<JoinAnswer> {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(30_000),
    });
    return { status: response.status, body: await response.json() };
  } catch (cause) {
    throw new Failure("unavailable", `cannot reach the server at ${url}`, { cause });
  }
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
  const digest = createHash("sha256").update(canonicalBytes(response.data.keys)).digest("hex");
  if (`sha256:${digest}` !== join.keysDigest) {
    throw new Failure("signature", "the server's keys are not the ones the join string names");
  }
  const { kind, audience } = response.data;
  if (kind !== join.kind || audience !== join.audience) {
    throw new Failure("wrong_install", `the server made this the ${kind} agent of ${audience}`);
  }
  return response.data;
}

function problemOf(body: unknown): string | undefined {
  if (typeof body !== "object" || body === null) return undefined;
  const { detail, title } = body as { detail?: unknown; title?: unknown };
  return [detail, title].find((text) => typeof text === "string");
}

function publicText(key: KeyObject): string {
  return key.export({ format: "der", type: "spki" }).toString("base64");
}

function privateText(key: KeyObject): string {
  return key.export({ format: "pem", type: "pkcs8" }).toString();
}
