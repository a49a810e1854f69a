// Holds a Lease of the cluster, so that of two copies of an agent one works and the other waits. The Lease is there
// already: who may update it by name needs no right to make one.

import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "@exclave/core";
import { z } from "zod";
import { type KubeClient, refusedStatus } from "./kube-client.ts";

const Lease = z.looseObject({
  metadata: z.looseObject({ name: z.string(), resourceVersion: z.string() }),
  spec: z
    .looseObject({
      holderIdentity: z.string().nullish(),
      leaseDurationSeconds: z.int().nullish(),
      renewTime: z.string().nullish(),
      leaseTransitions: z.int().nullish(),
    })
    .default({}),
});
export type Lease = z.infer<typeof Lease>;

export interface LeaseOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly name: string;
  /** This copy's own, and no other's; the same again after a restart of the same copy. */
  readonly holder: string;
  readonly durationMs?: number;
  /** How often it is renewed. */
  readonly renewMs?: number;
  readonly now: () => number;
  /** It could not be renewed in time: another copy may be at work from now on. */
  readonly onLost: (because: string) => void;
}

export interface HeldLease {
  /** Lets the next copy have it at once. */
  release(): Promise<void>;
}

const DURATION_MS = 30_000;

/** Waits until it is this copy's, or `signal` fires; then keeps it until it is released. */
export async function holdLease(options: LeaseOptions, signal: AbortSignal): Promise<HeldLease> {
  const { client, namespace, name, holder, now, onLost, durationMs = DURATION_MS } = options;
  const { renewMs = durationMs / 3 } = options;
  const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${name}`;
  /** Since when this copy has seen the Lease as it is: no clock of another machine is believed. */
  let seen = { version: "", at: 0 };
  let renewedAt = 0;

  while (!(await tryHold())) {
    await sleep(renewMs / 2, undefined, { signal });
  }
  const stopped = new AbortController();
  const renewing = renew();
  return {
    async release() {
      stopped.abort();
      await renewing;
      await write((lease) => (lease.spec.holderIdentity === holder ? null : undefined)).catch(
        () => undefined,
      );
    },
  };

  async function tryHold(): Promise<boolean> {
    return write((lease) => {
      const version = lease.metadata.resourceVersion;
      if (version !== seen.version) seen = { version, at: now() };
      return mayHold(lease, { holder, unchangedMs: now() - seen.at }) ? holder : undefined;
    });
  }

  async function renew(): Promise<void> {
    while (!stopped.signal.aborted) {
      await sleep(renewMs, undefined, { signal: stopped.signal }).catch(() => undefined);
      if (stopped.signal.aborted) return;
      const isOurs = await write((lease) =>
        lease.spec.holderIdentity === holder ? holder : undefined,
      ).catch(() => undefined);
      if (isOurs === false) return onLost("another copy of this agent holds its Lease");
      // Before anybody else may have it: whoever waits counts from the last renewal it saw.
      if (isOurs === undefined && now() - renewedAt > (durationMs * 2) / 3) {
        return onLost("the Lease of this agent could not be renewed in time");
      }
    }
  }

  /** False when `decide` says nothing or somebody else wrote in between. */
  async function write(decide: (lease: Lease) => string | null | undefined): Promise<boolean> {
    const lease = await client.find(path, Lease);
    if (!lease) throw new Failure("not_found", `there is no Lease ${name} in ${namespace}`);
    const next = decide(lease);
    if (next === undefined) return false;
    const at = now();
    try {
      const written = { ...lease, spec: leaseSpec(lease, next, { at, durationMs }) };
      await client.send("PUT", path, { json: written, schema: z.unknown() });
      renewedAt = at;
      return true;
    } catch (reason) {
      if (refusedStatus(reason) === 409) return false;
      throw reason;
    }
  }
}

/** Whether a copy may take the Lease: nobody has it, it has, or who had it is silent for its whole time. */
export function mayHold(
  { spec }: Pick<Lease, "spec">,
  { holder, unchangedMs }: { readonly holder: string; readonly unchangedMs: number },
): boolean {
  const { holderIdentity, leaseDurationSeconds } = spec;
  if (!holderIdentity || holderIdentity === holder) return true;
  return unchangedMs > (leaseDurationSeconds ?? DURATION_MS / 1_000) * 1_000;
}

function leaseSpec(
  { spec }: Lease,
  holder: string | null,
  { at, durationMs }: { readonly at: number; readonly durationMs: number },
): Lease["spec"] {
  const time = new Date(at).toISOString().replace("Z", "000Z");
  const isNew = spec.holderIdentity !== holder;
  return {
    ...spec,
    holderIdentity: holder,
    leaseDurationSeconds: Math.ceil(durationMs / 1_000),
    renewTime: time,
    ...(isNew && { acquireTime: time, leaseTransitions: (spec.leaseTransitions ?? 0) + 1 }),
  };
}
