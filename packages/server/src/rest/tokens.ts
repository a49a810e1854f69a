import { createToken, listTokens, revokeToken, type TokenView, timeOf } from "@exclave/api";
import { Failure, Instant } from "@exclave/core";
import { audit } from "../context.ts";
import { newSecret, newTokenId, secretHash } from "../identifiers.ts";
import type { TokenRow } from "../store/rows.ts";
import { type Handler, handler } from "./handler.ts";

export const TOKEN_HANDLERS: readonly Handler[] = [
  handler(listTokens, async ({ query, context }) => {
    const { items, next } = await context.store.read.tokens.list(query);
    return { items: items.map(viewToken), next };
  }),

  handler(createToken, async ({ body, caller, context }) => {
    const { store, now } = context;
    const secret = `exclave_${newSecret(32)}`;
    const token = tokenRow(body, secret, now());
    await store.transaction(async (tx) => {
      await tx.tokens.put(token);
      const { id, role, name } = token;
      await audit(tx, context, {
        actor: caller.name,
        action: "token.created",
        subject: id,
        details: { name, role, expiresAt: token.expiresAt },
      });
    });
    return { ...viewToken(token), token: secret };
  }),

  handler(revokeToken, async ({ params, caller, context }) => {
    const { store, now } = context;
    return store.transaction(async (tx) => {
      const token = await tx.tokens.get(params.token);
      if (!token) throw new Failure("not_found", `there is no token ${params.token}`);
      if (token.revokedAt !== null) return viewToken(token);
      const revoked = { ...token, revokedAt: now() };
      await tx.tokens.put(revoked);
      await audit(tx, context, {
        actor: caller.name,
        action: "token.revoked",
        subject: token.id,
        details: { name: token.name },
      });
      return viewToken(revoked);
    });
  }),
];

export function tokenRow(
  {
    name,
    role,
    expiresInSeconds,
  }: Pick<TokenRow, "name" | "role"> & { expiresInSeconds?: number | undefined },
  secret: string,
  now: Instant,
): TokenRow {
  return {
    id: newTokenId(),
    name,
    role,
    hash: secretHash(secret),
    createdAt: now,
    expiresAt:
      expiresInSeconds === undefined ? null : Instant.parse(now + expiresInSeconds * 1_000),
    revokedAt: null,
  };
}

function viewToken({ id, name, role, createdAt, expiresAt, revokedAt }: TokenRow): TokenView {
  return {
    id,
    name,
    role,
    createdAt: timeOf(createdAt),
    expiresAt: timeOf(expiresAt),
    revokedAt: timeOf(revokedAt),
  };
}
