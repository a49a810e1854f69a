// How often one agent may connect, speak and ask, across its connections. Nothing here waits or refuses; it says how
// long to wait.

import { AGENT_RATES, type Rate } from "@exclave/api";
import type { LinkInput } from "../link-state.ts";

export type RateName = keyof typeof AGENT_RATES;

export interface AgentQuota {
  /** Takes one; or says how long until there is one. */
  waitMs(rate: RateName, now: number): number;
}

export interface AgentQuotas {
  of(agent: string): AgentQuota;
}

/** Of so many agents; whoever was not heard of for longest starts anew. */
const AGENTS_MAX = 20_000;

export function createAgentQuotas(): AgentQuotas {
  const quotas = new Map<string, AgentQuota>();
  return {
    of(agent) {
      const quota = quotas.get(agent) ?? createAgentQuota();
      quotas.delete(agent);
      quotas.set(agent, quota);
      const [oldest] = quotas.keys();
      if (quotas.size > AGENTS_MAX && oldest !== undefined) quotas.delete(oldest);
      return quota;
    },
  };
}

export function createAgentQuota(
  rates: Readonly<Record<RateName, Rate>> = AGENT_RATES,
): AgentQuota {
  const buckets = new Map<RateName, { left: number; at: number }>();

  return { waitMs };

  function waitMs(name: RateName, now: number): number {
    const { burst, perSecond } = rates[name];
    const bucket = buckets.get(name) ?? { left: burst, at: now };
    const refill = (Math.max(0, now - bucket.at) / 1_000) * perSecond;
    const left = Math.min(burst, bucket.left + refill);
    const isThere = left >= 1;
    buckets.set(name, { left: isThere ? left - 1 : left, at: now });
    return isThere ? 0 : Math.ceil(((1 - left) / perSecond) * 1_000);
  }
}

/** Which rate an input counts against. */
export function rateOf(input: LinkInput): RateName | undefined {
  if (input.kind !== "frame") return undefined;
  if (input.frame.type === "event") return "event";
  const { type } = input.frame;
  const isAsking = type === "grant_want" || type === "join_want";
  // Each costs signatures, made or checked, or a row.
  const isKept = type === "checkpoints" || type === "authorities_kept";
  return isAsking || isKept ? "grant" : undefined;
}
