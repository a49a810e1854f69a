// What the jobs of one light agent write, and how far the server has it: sent within credit, and again from wherever
// the server says it ends.

import { createHash } from "node:crypto";
import { encodeLogFrame, type ServerFrame } from "@exclave/api";

/** As the real agent sends it. */
const FRAME_BYTES = 252 * 1024;

export interface FleetLog {
  readonly bytes: number;
  readonly sha256: string;
}

export interface FleetLogs {
  /** The server takes it as fast as it can. */
  append(job: string, attempt: number, bytes: Buffer): void;
  /** The job writes no more. */
  end(job: string): FleetLog;
  /** Jobs whose log the server has not got whole. */
  open(): {
    readonly job: string;
    readonly attempt: number;
    readonly logOffset: number;
    readonly state: "ended" | "running";
  }[];
  /** Begins at what the server has. */
  welcomed(logs: Extract<ServerFrame, { type: "welcome" }>["logs"], creditBytes: number): void;
  acknowledged(job: string, attempt: number, upTo: number): void;
  lost(): void;
}

interface Kept {
  readonly job: string;
  readonly attempt: number;
  content: Buffer;
  isWhole: boolean;
  sent: number;
  acked: number;
  rewoundAt: number;
}

export function createFleetLogs(
  send: (frame: Uint8Array) => void,
  onDelivered: (job: string) => void,
): FleetLogs {
  const logs = new Map<string, Kept>();
  let creditBytes = 0;

  return {
    append(job, attempt, bytes) {
      const kept = logs.get(job) ?? {
        job,
        attempt,
        content: Buffer.alloc(0),
        isWhole: false,
        sent: 0,
        acked: 0,
        rewoundAt: -1,
      };
      kept.content = kept.content.length === 0 ? bytes : Buffer.concat([kept.content, bytes]);
      logs.set(job, kept);
      pump(kept);
    },
    end(job) {
      const kept = logs.get(job);
      const content = kept?.content ?? Buffer.alloc(0);
      if (kept) {
        kept.isWhole = true;
        settle(kept);
      }
      const sha256 = createHash("sha256").update(content).digest("hex");
      return { bytes: content.length, sha256 };
    },
    open: () =>
      [...logs.values()].map(({ job, attempt, content, isWhole }) => ({
        job,
        attempt,
        logOffset: content.length,
        state: isWhole ? ("ended" as const) : ("running" as const),
      })),
    welcomed(known, credit) {
      creditBytes = credit;
      const upTo = new Map<string, number>(known.map((log) => [log.job, log.upTo]));
      for (const kept of logs.values()) {
        kept.acked = upTo.get(kept.job) ?? 0;
        kept.sent = kept.acked;
        kept.rewoundAt = -1;
        settle(kept);
      }
    },
    acknowledged(job, attempt, upTo) {
      const kept = logs.get(job);
      if (kept?.attempt !== attempt) return;
      if (upTo > kept.acked) {
        kept.acked = upTo;
        kept.sent = Math.max(kept.sent, upTo);
      } else if (upTo === kept.acked && kept.rewoundAt !== upTo) {
        kept.sent = upTo;
        kept.rewoundAt = upTo;
      }
      settle(kept);
    },
    lost() {
      creditBytes = 0;
    },
  };

  function settle(kept: Kept): void {
    if (kept.acked < kept.content.length || !kept.isWhole) return pump(kept);
    logs.delete(kept.job);
    onDelivered(kept.job);
  }

  function pump(kept: Kept): void {
    const { job, attempt, content } = kept;
    const end = Math.min(content.length, kept.acked + creditBytes);
    while (kept.sent < end) {
      const bytes = content.subarray(kept.sent, Math.min(end, kept.sent + FRAME_BYTES));
      send(encodeLogFrame({ job, attempt, offset: kept.sent, bytes }));
      kept.sent += bytes.length;
    }
  }
}
