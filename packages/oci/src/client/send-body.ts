// Bodies that are poured into a request.

import type { ClientRequest } from "node:http";
import type { Sink } from "./raw/raw-connection.ts";

/** Hands bytes to a sink, one chunk after the other, and lets the sink's own failures pass. */
export type Pour = (sink: Sink) => Promise<void>;

/** Writes as fast as the other side reads; stops without a word once it no longer listens. */
export async function sendBody(outgoing: ClientRequest, pour: Pour): Promise<void> {
  let answered = false;
  outgoing.once("response", () => {
    answered = true;
  });
  try {
    await pour(
      (chunk) =>
        new Promise((resolve, reject) => {
          if (answered) return reject(new NoLongerHeard());
          // Called when the bytes have left, so that their buffer can be used again.
          outgoing.write(chunk, (reason) => (reason ? reject(reason) : resolve()));
        }),
    );
    outgoing.end();
  } catch (reason) {
    if (!(reason instanceof NoLongerHeard)) throw reason;
  }
}

/** The registry answered before it heard everything. */
class NoLongerHeard extends Error {}
