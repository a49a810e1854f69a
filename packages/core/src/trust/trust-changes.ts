// What a next trust document changes, for whoever is asked to sign it: a root key signs what its
// holder has read, not what a server says it asks for.

import { TRUST_ROLES, type TrustDocument, type TrustRole } from "./trust-document.ts";

export interface TrustChanges {
  /** Roles that get a key, lose one before its end, or ask for another number of signatures. */
  readonly roles: readonly TrustRole[];
  readonly origins: boolean;
  /** One sentence for each change. */
  readonly sentences: readonly string[];
}

export function trustChanges(current: TrustDocument, next: TrustDocument): TrustChanges {
  const roles = new Set<TrustRole>();
  const sentences: string[] = [];
  for (const role of TRUST_ROLES) {
    for (const sentence of roleChanges(current, next, role)) {
      roles.add(role);
      sentences.push(sentence);
    }
  }
  const origins = current.origins.join() !== next.origins.join();
  if (origins) sentences.push(`agents pull from ${next.origins.join(", ")}`);
  sentences.push(`it ends at ${new Date(next.expiresAt).toISOString()}`);
  return { roles: [...roles], origins, sentences };
}

function roleChanges(current: TrustDocument, next: TrustDocument, role: TrustRole): string[] {
  const [before, after] = [current.roles[role], next.roles[role]];
  const sentences: string[] = [];
  for (const keyid of after.keyids) {
    const until = next.keys[keyid]?.until;
    if (!before.keyids.includes(keyid)) sentences.push(`${role} gets key ${short(keyid)}`);
    else if (until !== current.keys[keyid]?.until) {
      const end = until === undefined ? "has no end any more" : `ends at ${instant(until)}`;
      sentences.push(`${role} key ${short(keyid)} ${end}`);
    }
  }
  for (const keyid of before.keyids) {
    // One whose end was set before leaves by itself.
    const isEnding = current.keys[keyid]?.until !== undefined;
    if (!after.keyids.includes(keyid) && !isEnding) {
      sentences.push(`${role} loses key ${short(keyid)} at once`);
    }
  }
  if (before.threshold !== after.threshold) {
    sentences.push(`${role} asks for ${after.threshold} signatures instead of ${before.threshold}`);
  }
  return sentences;
}

function short(keyid: string): string {
  return keyid.slice(0, 12);
}

function instant(at: number): string {
  return new Date(at).toISOString();
}
