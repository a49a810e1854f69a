// Notices a copied key. An agent names its process (`bootId`) in every hello. One that was restarted never
// comes back as the process it was; two that hold one key take turns, because each connection ends the other's.

export const BOOTS_KEPT_MAX = 8;

/** A hello that was on its way for long can make a process come back once; nothing but a copy makes it come back twice. */
const TURNS_OF_A_COPY = 3;

export interface NotedBoot {
  /** To be kept for the next hello, oldest first. */
  readonly boots: readonly string[];
  /** Set when two processes are taking turns. */
  readonly because?: string;
}

export function noteBoot(before: readonly string[], bootId: string): NotedBoot {
  if (before.at(-1) === bootId) return { boots: before };
  const boots = [...before, bootId].slice(-BOOTS_KEPT_MAX);
  const turns = boots.filter((boot) => boot === bootId).length;
  if (turns < TURNS_OF_A_COPY) return { boots };
  const because =
    "two processes hold this agent's key and take turns at the link; `exclave agent revoke` ends both, " +
    "and a new join brings one of them back";
  // From here on they are counted anew, so that it is said again only if it goes on.
  return { boots: [bootId], because };
}
