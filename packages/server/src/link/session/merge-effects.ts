// What several frames that came together want done: their writes as one commit, and one acknowledgement of the last.
// Nothing is said before what it speaks of is committed, and what is neither written nor said keeps its place.

import type { LinkEffect, LinkInput, LinkState, LinkWrite } from "../link-state.ts";
import { advanceLink } from "../server-core.ts";

type Commit = Extract<LinkEffect, { kind: "commit" }>;

export type MergedEffect =
  | Exclude<LinkEffect, Commit>
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
  let rest: Exclude<LinkEffect, Commit>[] = [];
  for (const effect of effects) {
    if (effect.kind === "commit") {
      if (commits.some(({ epoch }) => epoch !== effect.epoch)) flush();
      commits.push(effect);
      // A session is by itself: it is what all others are written under.
      if (effect.write.kind === "session") flush();
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
    const lastAck = rest.findLast(isAck);
    merged.push(...rest.filter((effect) => effect === lastAck || !isAck(effect)));
    commits = [];
    rest = [];
  }
}

/** Of events: each speaks for all before it. */
function isAck(effect: LinkEffect): boolean {
  return effect.kind === "send" && effect.frame.type === "ack";
}
