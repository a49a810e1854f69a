// Reads what a server says. A command that cannot be read is an answer of its own: it is refused by an event,
// where a cut connection would bring the same bytes again.

import { z } from "zod";
import { JobAttempt } from "./agent-events.ts";
import { ServerFrame } from "./link.ts";
import { FRAME_BYTES_MAX } from "./link-limits.ts";

/** A command an agent cannot read: of a later version, too large, or nonsense. It is refused by an event. */
export interface UnreadableCommand {
  readonly type: "unreadable_command";
  readonly seq: number;
  readonly about?: z.infer<typeof JobAttempt> | undefined;
  readonly because: string;
}

const AnyCommand = z.object({
  type: z.literal("command"),
  seq: z.int().positive(),
  body: z.unknown(),
});

/** What a frame of the server says, as far as it can be read; nothing for what is no frame. */
export function readServerFrame(text: string): ServerFrame | UnreadableCommand | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const isTooLarge = text.length > FRAME_BYTES_MAX;
  const frame = isTooLarge ? undefined : ServerFrame.safeParse(value).data;
  if (frame) return frame;
  const command = AnyCommand.safeParse(value).data;
  if (!command) return undefined;
  const because = isTooLarge
    ? `the command has ${text.length} bytes, and a frame at most ${FRAME_BYTES_MAX}`
    : "this agent does not know such a command";
  const about = JobAttempt.safeParse(command.body).data;
  return { type: "unreadable_command", seq: command.seq, about, because };
}
