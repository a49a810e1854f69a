// Whether an agent may speak on a connection with the client certificate it shows there, and when it gets the
// next one. Who it is was proven by the signature in its hello; this is about the connection.

const DAY_MS = 86_400_000;

const LIFE_MS = DAY_MS;

/** So long after its end a certificate is replaced for whoever holds its key: an outage bricks no fleet. */
export const RENEWABLE_MS = 90 * DAY_MS;

/** One that an agent did not say it keeps is offered again after so long. */
export const OFFER_AGAIN_MS = 60_000;

/** What a connection shows of its peer. */
export type PresentedCertificate =
  | { readonly kind: "none" }
  /** By another authority, or for another use. */
  | { readonly kind: "foreign" }
  | {
      readonly kind: "ours";
      readonly agent: string;
      readonly audience: string;
      readonly keyGeneration: number;
      /** Base64 SPKI, as an agent joins with it. */
      readonly identityKey: string;
      readonly notAfter: number;
    };

export interface CertifiedAgent {
  readonly id: string;
  readonly audience: string;
  readonly identityKey: string;
  /** When the certificate ends that it was given last; absent when it never had one. */
  readonly certificateUntil?: number | undefined;
}

export type CertificateJudgement =
  | { readonly kind: "in"; readonly until: number }
  /** It joined before there were certificates and knows of none: its hello is its proof. */
  | { readonly kind: "exempt" }
  /** It is who it says, and gets a certificate and nothing else. */
  | { readonly kind: "renew"; readonly because: string }
  | { readonly kind: "refuse"; readonly because: string };

/** Whether what a connection shows belongs to somebody else than the agent that speaks on it. */
export function isOthers(presented: PresentedCertificate, agent: CertifiedAgent): boolean {
  if (presented.kind !== "ours") return false;
  return presented.agent !== agent.id || presented.audience !== agent.audience;
}

export function judgeCertificate(
  presented: PresentedCertificate,
  agent: CertifiedAgent,
  { canRenew, now }: { readonly canRenew: boolean; readonly now: number },
): CertificateJudgement {
  // The key of an earlier join is not the one that signed the hello.
  const isCurrent = presented.kind === "ours" && presented.identityKey === agent.identityKey;
  if (isCurrent && presented.notAfter > now) return { kind: "in", until: presented.notAfter };
  const lastUntil = agent.certificateUntil;
  if (lastUntil === undefined && !canRenew) return { kind: "exempt" };
  const because = isCurrent ? "its certificate has expired" : withoutOne(presented);
  if (!canRenew) return { kind: "refuse", because: `${because}, and it cannot be given another` };
  const end = isCurrent ? presented.notAfter : (lastUntil ?? now);
  if (now - end < RENEWABLE_MS) return { kind: "renew", because };
  const days = Math.floor((now - end) / DAY_MS);
  const late = `its certificate ended ${days} days ago, and is renewed for 90; it has to join anew`;
  return { kind: "refuse", because: late };
}

function withoutOne({ kind }: PresentedCertificate): string {
  if (kind === "none") return "it shows no certificate";
  return kind === "ours"
    ? "its certificate is of an earlier key"
    : "its certificate is not by this server";
}

/** When a certificate ends that is issued now: a certificate knows whole seconds. */
export function certificateEnd(now: number): number {
  return Math.floor((now + LIFE_MS) / 1_000) * 1_000;
}

/** Two thirds of its life, and for each agent a little earlier than that, so that a fleet does not renew as one. */
export function renewAt(until: number, agent: string): number {
  let sum = 0;
  for (const letter of agent) sum = (sum * 31 + letter.charCodeAt(0)) % 1_000;
  return Math.round(until - LIFE_MS / 3 - (sum / 1_000) * (LIFE_MS / 12));
}
