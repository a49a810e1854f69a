// Sends what jobs wrote, out of the spool: in order, and only on the connection it was meant for.

import { encodeLogFrame } from "@exclave/api";
import type { JobName } from "@exclave/core";
import type { JobRecord } from "../journal/journal.ts";
import type { LinkClient } from "../link/link-client.ts";
import type { Log } from "../log.ts";
import type { Spool } from "./spool.ts";

export interface LogSender {
  send(name: JobName, offset: number, bytes: number): void;
}

export function createLogSender(options: {
  readonly link: LinkClient;
  readonly spool: Spool;
  /** Absent when that job is settled and forgotten. */
  readonly recordOf: (name: JobName) => JobRecord | undefined;
  readonly log: Log;
}): LogSender {
  const { link, spool, recordOf, log } = options;
  let sent: Promise<void> = Promise.resolve();

  return {
    send(name, offset, bytes) {
      const { session } = link;
      const earlier = sent;
      sent = earlier.then(() => readAndSend(session, name, offset, bytes));
    },
  };

  async function readAndSend(
    session: number,
    name: JobName,
    offset: number,
    bytes: number,
  ): Promise<void> {
    const manifest = recordOf(name)?.manifest;
    if (!manifest || link.session !== session) return;
    const { id: job, attempt } = manifest;
    try {
      const chunk = await spool.read(name, offset, bytes);
      if (link.session !== session || chunk.length === 0) return;
      link.sendBytes(encodeLogFrame({ job, attempt, offset, bytes: chunk }));
    } catch (reason) {
      log.warn("a spooled log cannot be read", { job, reason });
    }
  }
}
