// The names and ids of the product, each its own type, so that one cannot stand in for another.
// Names are for people and can be used again; ids are made once and mean one thing for ever.

import { z } from "zod";

/** Names people choose: they become directory, repository and container names, so they stay plain. */
const NAME = /^[a-z][a-z0-9-]{0,38}[a-z0-9]$|^[a-z]$/;
export const NAME_RULE =
  "lower-case letters, digits and dashes, starting with a letter, at most 40";
const name = () => z.string().regex(NAME, `must be ${NAME_RULE}`);

/** Ids the program makes: a prefix that says what it is, then random lower-case base 32. */
const id = (prefix: string) => z.string().regex(new RegExp(`^${prefix}[a-z2-7]{16}$`));

export const AppName = name().brand<"AppName">();
export type AppName = z.infer<typeof AppName>;
export const ComponentName = name().brand<"ComponentName">();
export type ComponentName = z.infer<typeof ComponentName>;
export const InstallName = name().brand<"InstallName">();
export type InstallName = z.infer<typeof InstallName>;
export const ChannelName = name().brand<"ChannelName">();
export type ChannelName = z.infer<typeof ChannelName>;
export const ComponentType = name().brand<"ComponentType">();
export type ComponentType = z.infer<typeof ComponentType>;

export const AppId = id("p").brand<"AppId">();
export type AppId = z.infer<typeof AppId>;
export const InstallId = id("i").brand<"InstallId">();
export type InstallId = z.infer<typeof InstallId>;
export const JobId = id("j").brand<"JobId">();
export type JobId = z.infer<typeof JobId>;
export const AgentId = id("a").brand<"AgentId">();
export type AgentId = z.infer<typeof AgentId>;
export const ReleaseId = id("r").brand<"ReleaseId">();
export type ReleaseId = z.infer<typeof ReleaseId>;
export const TokenId = id("t").brand<"TokenId">();
export type TokenId = z.infer<typeof TokenId>;

/** Whose agent may run a job: an install by its id, or one of the vendor's own two. */
export const Audience = z.union([InstallId, z.enum(["build", "setup"])]);
export type Audience = z.infer<typeof Audience>;

/** One run of one job in a runtime: a pure function of ids, so a crash is healed by looking. */
export const JobName = z
  .string()
  .regex(/^j-[a-z0-9-]{1,80}-[0-9]+$/)
  .brand<"JobName">();
export type JobName = z.infer<typeof JobName>;

export function jobName(job: string, attempt: number): JobName {
  return JobName.parse(`j-${job}-${attempt}`);
}

export const Digest = z
  .string()
  .regex(/^sha256:[0-9a-f]{64}$|^sha512:[0-9a-f]{128}$/)
  .brand<"Digest">();
export type Digest = z.infer<typeof Digest>;

/** Milliseconds since 1970, always handed in: the core has no clock. */
export const Instant = z.int().nonnegative().brand<"Instant">();
export type Instant = z.infer<typeof Instant>;

const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";

/** An id body from random bytes that the caller rolled: 10 bytes make 16 letters. */
export function idFromBytes(prefix: string, bytes: Uint8Array): string {
  let value = 0n;
  for (const byte of bytes.subarray(0, 10)) value = (value << 8n) | BigInt(byte);
  let text = "";
  for (let index = 0; index < 16; index++) {
    text = ALPHABET[Number(value & 31n)] + text;
    value >>= 5n;
  }
  return prefix + text;
}
