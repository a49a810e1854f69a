// The token service of the vendor's registry, as Docker's token authentication has it. People send
// an API token as a password: whoever may operate may also look. Jobs send the credential of their
// grant, and get what they may read and write, for minutes at a time, as long as they run.

import { Failure } from "@exclave/core";
import { type Access, Action, mintToken } from "@exclave/oci";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { audit, type ServerContext } from "../context.ts";
import { newSecret, secretHash } from "../identifiers.ts";
import {
  holderOf,
  REGISTRY_ISSUER,
  REGISTRY_SERVICE,
  TOKEN_TTL_MS,
  tokenForJob,
} from "../job/grants.ts";
import type { Admission } from "./admission.ts";
import { authorize, tokenOf } from "./authenticate.ts";

const PATH = "/v1/registry/token";

/** Read before it is known whose it is: the credential, and a scope or two. */
const FORM_BYTES_MAX = 8 * 1024;

/** OAuth2's form, in which registry clients send what is not a password. */
const RefreshForm = z.object({
  grant_type: z.literal("refresh_token"),
  refresh_token: z.string(),
  scope: z.string().default(""),
});

export function addRegistryTokenRoute(
  app: FastifyInstance,
  context: () => ServerContext,
  admission: Admission,
): void {
  app.get(PATH, async (request, reply) => {
    const { scope = [] } = request.query as { scope?: string | string[] };
    const secret = basicPassword(request.headers.authorization);
    if (secret !== undefined) await turnOf(request, reply, secretHash(secret));
    return answer(context(), await tokenForPerson(context(), secret, readScopes([scope].flat())));
  });

  app.addContentTypeParser(
    "application/x-www-form-urlencoded",
    { parseAs: "string" },
    (_request, body, done) => done(null, Object.fromEntries(new URLSearchParams(String(body)))),
  );
  app.post(PATH, { bodyLimit: FORM_BYTES_MAX }, async (request, reply) => {
    const form = RefreshForm.safeParse(request.body);
    if (!form.success) {
      throw new Failure("invalid", "send grant_type=refresh_token with the credential of a job");
    }
    const { refresh_token: credential, scope } = form.data;
    const asked = readScopes(scope.split(" "));
    // By whose the credential is, and not by what is shown: an agent has as many credentials as jobs.
    const holder = await holderOf(context(), credential);
    await turnOf(request, reply, holder.agent);
    return answer(context(), await tokenForJob(context(), holder, asked));
  });

  async function turnOf(request: FastifyRequest, reply: FastifyReply, caller: string) {
    const payer = { caller, kind: "registryToken" as const };
    await admission.enter(request, reply, { isStream: false, payer });
  }
}

function answer({ now }: ServerContext, token: string) {
  const issuedAt = new Date(now()).toISOString();
  return { token, access_token: token, expires_in: TOKEN_TTL_MS / 1_000, issued_at: issuedAt };
}

async function tokenForPerson(
  context: ServerContext,
  secret: string | undefined,
  asked: readonly Access[],
): Promise<string> {
  const { keys, now, store } = context;
  const token = secret === undefined ? undefined : await tokenOf(context, secret);
  if (!token) throw new Failure("unauthenticated", "send an API token as the password");
  const caller = { name: `token:${token.name}`, role: token.role };
  authorize(caller, "operator");

  // Whatever was asked for, pulling is what is given.
  const access = asked.map(({ type, name }): Access => ({ type, name, actions: ["pull"] }));
  const jti = newSecret();
  await store.transaction((tx) =>
    audit(tx, context, {
      actor: caller.name,
      action: "grant.given",
      subject: "registry",
      details: { jti, access },
    }),
  );
  return mintToken({
    privateKey: keys.registry.privateKey,
    issuer: REGISTRY_ISSUER,
    audience: REGISTRY_SERVICE,
    subject: caller.name,
    access,
    ttlMs: TOKEN_TTL_MS,
    now: now(),
    jti,
  });
}

function basicPassword(authorization: string | undefined): string | undefined {
  const encoded = /^Basic (\S+)$/i.exec(authorization ?? "")?.[1];
  if (encoded === undefined) return undefined;
  const text = Buffer.from(encoded, "base64").toString("utf8");
  return text.slice(text.indexOf(":") + 1);
}

/** `repository:name:action,action`, one for each repository. */
function readScopes(scopes: readonly string[]): Access[] {
  return scopes.flatMap((scope): Access[] => {
    const [, name, actions = ""] = /^repository:([^:*]+):(.*)$/.exec(scope) ?? [];
    if (name === undefined) return [];
    const known = actions.split(",").map((action) => Action.safeParse(action));
    return [{ type: "repository", name, actions: known.flatMap(({ data }) => data ?? []) }];
  });
}
