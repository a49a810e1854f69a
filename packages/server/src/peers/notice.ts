// What servers on one database tell each other. A notice is a hint to read something again: one that comes twice or
// late does no harm, and after one that may be lost everything is looked at once.

import { Audience, InstallId } from "@exclave/core";
import { z } from "zod";

const Said = z.object({
  kind: z.enum(["install", "job", "release", "agent", "channel", "log"]),
  subject: z.string(),
  install: z.object({ id: z.string(), name: z.string() }).nullable(),
  component: z.string().nullable(),
  message: z.string(),
});

export const Notice = z.discriminatedUnion("kind", [
  /** Reconcile it, whoever plans it. */
  z.object({ kind: z.literal("install"), install: InstallId }),
  z.object({ kind: z.literal("all_installs") }),
  z.object({ kind: z.literal("releases") }),
  /** Something is in its outbox, for whoever holds its link. */
  z.object({ kind: z.literal("outbox"), audience: Audience }),
  z.object({ kind: z.literal("revoked"), audience: Audience }),
  /** Its link came to the server that says so, or is gone from there. */
  z.object({
    kind: z.literal("link"),
    audience: Audience,
    epoch: z.int().nonnegative(),
    isUp: z.boolean(),
  }),
  /** Something happened that people may be watching. */
  z.object({ kind: z.literal("event"), event: Said }),
  z.object({ kind: z.literal("trust") }),
  z.object({ kind: z.literal("authority") }),
  /** Somebody reads the log of that job over there. */
  z.object({ kind: z.literal("followed"), job: z.string() }),
  /** That agent is to be asked for the checkpoints it kept. */
  z.object({ kind: z.literal("checkpoints_wanted"), audience: Audience }),
  z.object({ kind: z.literal("checkpoints_kept"), agent: z.string() }),
  /** More was to be told than is kept: look at everything once. */
  z.object({ kind: z.literal("everything") }),
]);

export type Notice = z.infer<typeof Notice>;

/** PostgreSQL takes less than 8,000 bytes at once. */
export const PAYLOAD_BYTES_MAX = 7_900;
/** What waits to be told. Above this, everything is looked at. */
export const WAITING_MAX = 10_000;
const MESSAGE_CHARACTERS_MAX = 300;

const Payload = z.object({ from: z.string(), notices: z.array(z.unknown()) });

/** In their order, as few texts as it takes, none of them too long. */
export function packNotices(from: string, notices: readonly Notice[]): string[] {
  const payloads: string[] = [];
  const empty = JSON.stringify({ from, notices: [] }).length;
  let batch: string[] = [];
  let bytes = empty;
  const close = () => {
    if (batch.length > 0)
      payloads.push(`{"from":${JSON.stringify(from)},"notices":[${batch.join()}]}`);
    batch = [];
    bytes = empty;
  };
  for (const notice of notices) {
    const text = boundedText(notice, PAYLOAD_BYTES_MAX - empty);
    if (text === undefined) continue;
    const size = Buffer.byteLength(text) + 1;
    if (bytes + size > PAYLOAD_BYTES_MAX) close();
    batch.push(text);
    bytes += size;
  }
  close();
  return payloads;
}

/** What another server said, as far as this one understands it: a newer one may say more. */
export function unpackNotices(
  payload: string,
): { readonly from: string; readonly notices: readonly Notice[] } | undefined {
  const read = Payload.safeParse(parseJson(payload)).data;
  if (!read) return undefined;
  const notices = read.notices.flatMap((one) => Notice.safeParse(one).data ?? []);
  return { from: read.from, notices };
}

/** What makes two notices one, while both wait; undefined for what happened twice when it is told twice. */
export function keyOfNotice(notice: Notice): string | undefined {
  // A link that came and went is told in that order.
  if (notice.kind === "event" || notice.kind === "link") return undefined;
  return JSON.stringify(notice);
}

/** Undefined for an event that does not fit even when it is cut: people see it where it happened. */
function boundedText(notice: Notice, bytesMax: number): string | undefined {
  const bounded =
    notice.kind === "event"
      ? { ...notice, event: { ...notice.event, message: cut(notice.event.message) } }
      : notice;
  const text = JSON.stringify(bounded);
  return Buffer.byteLength(text) < bytesMax ? text : undefined;
}

function cut(message: string): string {
  if (message.length <= MESSAGE_CHARACTERS_MAX) return message;
  return `${message.slice(0, MESSAGE_CHARACTERS_MAX)}…`;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
