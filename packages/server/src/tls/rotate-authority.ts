// Replaces the server's certificate authority while agents and people trust the old one. The new one is signed by
// the old one, so that everybody finds a way to it; agents are told over the link and people's contexts over
// the API; the old one is retired when nobody knows no other.

import type { X509Certificate } from "node:crypto";
import { type AuthorityView, timeOf } from "@exclave/api";
import { Failure, Instant } from "@exclave/core";
import { caFingerprint } from "@exclave/machine";
import { audit, type ServerContext } from "../context.ts";
import type { AgentRow } from "../store/rows.ts";
import type { ListenerAuthority } from "./open-listener.ts";

type Context = Pick<ServerContext, "store" | "authority" | "now" | "peers">;

const NAMED_MAX = 5;
const PAGE = 200;

export async function viewAuthority(context: Context): Promise<AuthorityView> {
  const { held, isPinned } = authorityOf(context);
  return {
    current: shown(held.certificate),
    old: held.old ? shown(held.old) : null,
    isPinned,
    behind: isPinned ? await agentsBehind(context, held.fingerprint) : { agents: 0, first: [] },
  };
}

/** One change at a time, on any server, from what the one before has left; the others are told. */
function inTurn(context: Context, change: () => Promise<AuthorityView>): Promise<AuthorityView> {
  return context.peers.alone("authority", async () => {
    await context.authority?.refresh();
    const view = await change();
    context.peers.tell({ kind: "authority" });
    return view;
  });
}

export function rotateAuthority(context: Context, by: string): Promise<AuthorityView> {
  return inTurn(context, () => rotate(context, by));
}

async function rotate(context: Context, by: string): Promise<AuthorityView> {
  const authority = authorityOf(context);
  const { held } = authority;
  if (held.old) {
    const message = `the authority ${caFingerprint(held.old)} is still being replaced; retire it first`;
    throw new Failure("conflict", message);
  }
  const next = held.makeNext();
  // On record before it happens: a crash in between leaves an entry that was not acted on.
  const details = { before: held.fingerprint };
  await note(context, by, "authority.rotated", caFingerprint(next.certificate), details);
  await held.take(next);
  authority.changed();
  return viewAuthority(context);
}

export interface RetireAuthority {
  readonly by: string;
  readonly force: boolean;
}

export function retireAuthority(context: Context, asked: RetireAuthority): Promise<AuthorityView> {
  return inTurn(context, () => retire(context, asked));
}

async function retire(context: Context, { by, force }: RetireAuthority): Promise<AuthorityView> {
  const authority = authorityOf(context);
  const { held } = authority;
  if (!held.old) throw new Failure("conflict", "no authority is being replaced");
  const { behind } = await viewAuthority(context);
  if (behind.agents > 0 && !force) {
    const named = behind.first.join(", ");
    const message =
      `${behind.agents} agents do not know the current authority yet (${named}); they would have to join ` +
      "anew. They learn of it when they connect; `--force` retires the old one all the same";
    throw new Failure("conflict", message);
  }
  const details = { current: held.fingerprint, agentsBehind: behind.agents, force };
  await note(context, by, "authority.retired", caFingerprint(held.old), details);
  await held.retireOld();
  authority.changed();
  return viewAuthority(context);
}

/** Whether an agent would not know the server by that authority alone. */
export function isBehind(
  {
    revokedAt,
    everConnected,
    authorities,
  }: Pick<AgentRow, "revokedAt" | "everConnected" | "authorities">,
  fingerprint: string,
): boolean {
  if (revokedAt !== null || !everConnected) return false;
  // One that says nothing is of an earlier version; one that names none goes by its machine's roots.
  if (authorities === undefined) return true;
  return authorities.length > 0 && !authorities.includes(fingerprint);
}

async function agentsBehind({ store }: Context, fingerprint: string) {
  const behind: string[] = [];
  let cursor: string | undefined;
  do {
    const { items, next } = await store.read.agents.list({ limit: PAGE, cursor });
    for (const agent of items) {
      if (isBehind(agent, fingerprint)) behind.push(agent.installName ?? agent.kind);
    }
    cursor = next ?? undefined;
  } while (cursor !== undefined);
  return { agents: behind.length, first: behind.slice(0, NAMED_MAX) };
}

function authorityOf({ authority }: Context): ListenerAuthority {
  if (authority) return authority;
  throw new Failure("conflict", "this server speaks plain HTTP and has no certificate authority");
}

function shown(certificate: X509Certificate) {
  return {
    fingerprint: caFingerprint(certificate),
    certificate: certificate.toString(),
    expiresAt: timeOf(Instant.parse(certificate.validToDate.getTime())),
  };
}

async function note(
  context: Context,
  actor: string,
  action: string,
  subject: string,
  details: Record<string, unknown>,
): Promise<void> {
  await context.store.transaction((tx) => audit(tx, context, { actor, action, subject, details }));
}
