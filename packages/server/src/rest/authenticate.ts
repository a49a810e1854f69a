// Who is asking. Deny by default: a call that says nothing of access is closed to everybody.

import type { Access, Role } from "@exclave/api";
import { Failure } from "@exclave/core";
import type { ServerContext } from "../context.ts";
import { secretHash } from "../identifiers.ts";
import type { TokenRow } from "../store/rows.ts";
import type { Caller } from "./handler.ts";

const RANK: Record<Role, number> = { viewer: 1, operator: 2, admin: 3 };

const NOBODY: Caller = { name: "nobody", role: "nobody" };

export async function authenticate(
  context: Pick<ServerContext, "store" | "now">,
  authorization: string | undefined,
): Promise<Caller> {
  if (authorization === undefined) return NOBODY;
  const secret = /^Bearer (\S+)$/i.exec(authorization)?.[1];
  const token = secret === undefined ? undefined : await tokenOf(context, secret);
  if (!token) throw new Failure("unauthenticated", "the token is not valid here, or no longer");
  return { name: `token:${token.name}`, role: token.role };
}

export async function tokenOf(
  { store, now }: Pick<ServerContext, "store" | "now">,
  secret: string,
): Promise<TokenRow | undefined> {
  const token = await store.read.tokens.byHash(secretHash(secret));
  if (!token || token.revokedAt !== null) return undefined;
  return token.expiresAt !== null && token.expiresAt <= now() ? undefined : token;
}

export function authorize(caller: Caller, access: Access): void {
  if (access === "public") return;
  if (caller.role === "nobody") {
    throw new Failure("unauthenticated", "a token is needed: send it as a bearer token");
  }
  if (!(RANK[caller.role] >= RANK[access])) {
    throw new Failure("forbidden", `this needs the role ${access}, the token has ${caller.role}`);
  }
}
