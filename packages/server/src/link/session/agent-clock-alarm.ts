// An agent whose clock is far off refuses manifests, certificates and tokens for reasons that nobody
// understands who does not know of the clock: it is said when the agent connects.

/** As much as an agent allows for when it judges a manifest. */
const CLOCK_OFF_MS_MAX = 5 * 60_000;

export function clockAlarm(
  agentMs: number,
  now: number,
): { readonly code: "clock_off"; readonly because: string } | undefined {
  const offMs = agentMs - now;
  if (Math.abs(offMs) <= CLOCK_OFF_MS_MAX) return undefined;
  const which = offMs > 0 ? "ahead of" : "behind";
  const because =
    `the clock of the agent's machine is ${inWords(Math.abs(offMs))} ${which} this server's: what is signed ` +
    "for a time may be refused there; set the clock, and the agent goes on by itself";
  return { code: "clock_off", because };
}

function inWords(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  if (minutes < 120) return `${minutes} minutes`;
  const hours = Math.round(minutes / 60);
  return hours < 72 ? `${hours} hours` : `${Math.round(hours / 24)} days`;
}
