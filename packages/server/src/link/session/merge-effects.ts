// What several frames that came together want done: their writes as one commit, and one acknowledgement of the last.
// Nothing is said before what it speaks of is committed, and what is neither written nor said keeps its place.

import type { LinkEffect, LinkInput, LinkState, LinkWrite } from "../link-state.ts";
import { advanceLink } from "../server-core.ts";

type Commit = Extract<LinkEffect, { kind: "commit" }>;

type Append = Extract<LinkEffect, { kind: "append_log" }>;

export type MergedEffect =
  | Exclude<LinkEffect, Commit | Append>
  /** Of one job each: they are written side by side. */
  | { readonly kind: "append_logs"; readonly pieces: readonly Append[] }
  | { readonly kind: "commit"; readonly epoch: number; readonly writes: readonly LinkWrite[] };

/** The machine after all of these, and what they want done. */
export function advanceTogether(
  state: LinkState,
  inputs: readonly LinkInput[],
): { readonly state: LinkState; readonly effects: readonly MergedEffect[] } {
  const wanted: LinkEffect[] = [];
  for (const input of inputs) {
    const next = advanceLink(state, input);
    state = next.state;
    wanted.push(...next.effects);
  }
  return { state, effects: mergeEffects(wanted) };
}

export function mergeEffects(effects: readonly LinkEffect[]): MergedEffect[] {
  const merged: MergedEffect[] = [];
  let commits: Commit[] = [];
  let appends: Append[] = [];
  let rest: Exclude<LinkEffect, Commit | Append>[] = [];
  for (const effect of effects) {
    if (effect.kind === "commit") {
      if (commits.some(({ epoch }) => epoch !== effect.epoch)) flush();
      commits.push(effect);
      // A session is by itself: it is what all others are written under.
      if (effect.write.kind === "session") flush();
      continue;
    }
    if (effect.kind === "append_log") {
      if (appends.some(({ job }) => job === effect.job)) flush();
      appends.push(effect);
      continue;
    }
    const keepsItsPlace = !["send", "look", "looks"].includes(effect.kind);
    if (keepsItsPlace) flush();
    rest.push(effect);
    if (keepsItsPlace) flush();
  }
  flush();
  return merged;

  function flush(): void {
    const [first] = commits;
    if (first) {
      merged.push({
        kind: "commit",
        epoch: first.epoch,
        writes: commits.map(({ write }) => write),
      });
    }
    if (appends.length > 0) merged.push({ kind: "append_logs", pieces: appends });
    const lastAck = rest.findLast(isAck);
    merged.push(...rest.filter((effect) => effect === lastAck || !isAck(effect)));
    commits = [];
    appends = [];
    rest = [];
  }
}

/** Of events: each speaks for all before it. */
function isAck(effect: LinkEffect): boolean {
  return effect.kind === "send" && effect.frame.type === "ack";
}
