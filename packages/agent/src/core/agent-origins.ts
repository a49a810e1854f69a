// Which registries are the vendor's is in the trust document, and a server cannot add one: a grant that
// names another is refused, on record.

import type { Grant } from "@exclave/api";
import type { TrustDocument } from "@exclave/core";
import { act, record, type Turn } from "./turn.ts";

/** The first origin of a grant that the trust document does not name. */
export function foreignOrigin(
  { origins }: TrustDocument,
  { registryUrl, sourceUrl }: Grant,
): string | undefined {
  const named = [registryUrl, ...(sourceUrl === undefined ? [] : [sourceUrl])];
  return named.map(originOf).find((origin) => !origins.includes(origin));
}

/** Puts it on record and gives the sentence for it. */
export function refuseOrigin(turn: Turn, origin: string, what: string): string {
  const because = `the server gave access ${what} to ${origin}, which is not an origin of the vendor's`;
  act(turn, { kind: "note", level: "warn", text: because });
  record(turn, { type: "alarm", at: turn.now, code: "foreign_origin", because });
  return because;
}

function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : url;
}
