// What a side can do beyond the messages that every agent and every server of version 1 knows. Each names
// what it can in its hello or welcome; nothing is used that the other has not named.

/** Client certificates: `certificate` and `certificate_kept`. */
export const CERTIFICATES = "certificates";

/** A change of the authority behind the server's certificate: `authorities` and `authorities_kept`. */
export const AUTHORITIES = "authorities";

/** A server that stops tells each agent when to leave: `drain`. */
export const DRAIN = "drain";

/** What this version of an agent can do. */
export const AGENT_CAPABILITIES: readonly string[] = [CERTIFICATES, AUTHORITIES, DRAIN];

/** What both can do, in the order of ours. Names of a later version are theirs alone. */
export function sharedCapabilities(ours: readonly string[], theirs: readonly string[]): string[] {
  const named = new Set(theirs);
  return ours.filter((capability) => named.has(capability));
}
