// Why something is not happening, and what ends it: waiting alone, or the one command a person runs.

import type { ComponentName, Instant } from "../ids.ts";

export interface Hold extends HoldEnd {
  /** Absent when it is about the whole install. */
  readonly component?: ComponentName;
  readonly because: string;
}

export interface HoldEnd {
  /** The rest of a sentence that begins "it ends when"; the command is in it, as it is typed. */
  readonly endsWhen: string;
  /** The one command that ends it, or ends it at once; absent where it ends by itself. */
  readonly command?: string;
  /** Set when waiting alone ends the hold. */
  readonly until?: Instant;
}

/** Nobody has to do anything: what it waits for is under way, or comes of its own accord. */
export function byItself(endsWhen: string): HoldEnd {
  return { endsWhen };
}

/** Something a person does, and what that does: "`exclave install deploy acme` asks for a retry". */
export function byCommand(command: string, does: string, otherwise?: string): HoldEnd {
  const either = otherwise === undefined ? "" : `${otherwise}, or `;
  return { endsWhen: `${either}\`${command}\` ${does}`, command };
}

/** The clock alone ends it. */
export function atTime(until: Instant): HoldEnd {
  return { endsWhen: `it is retried at ${new Date(until).toISOString()}`, until };
}

/** It comes by itself, and if it does not the clock ends it. */
export function atLatest(what: string, until: Instant): HoldEnd {
  return { endsWhen: `${what}, at the latest at ${new Date(until).toISOString()}`, until };
}

/** Run where the app's exclave.yaml lies, which only its vendor knows. */
export function byRelease(
  { app, channel }: { readonly app: string; readonly channel: string },
  does: string,
): HoldEnd {
  return byCommand(`exclave release --channel ${channel}`, `in the directory of ${app} ${does}`);
}

/** What ends the refusal of an agent that has seen a newer release than its server knows. */
export function byNewerRelease(of: { readonly app: string; readonly channel: string }): HoldEnd {
  return byRelease(of, "has made a release that is newer");
}
