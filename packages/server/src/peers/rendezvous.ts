// Which of several servers does something that any of them could: the same one for all who ask, and when one comes or
// goes, only what it did changes hands.

import { createHash } from "node:crypto";

export function chooseServer(servers: readonly string[], what: string): string | undefined {
  let chosen: string | undefined;
  let highest = -1n;
  for (const server of servers) {
    const weight = createHash("sha256").update(`${server} ${what}`).digest().readBigUInt64BE();
    if (weight < highest || (weight === highest && chosen !== undefined && server > chosen)) {
      continue;
    }
    highest = weight;
    chosen = server;
  }
  return chosen;
}
