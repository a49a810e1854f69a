// What a server remembers of logs in an object store, so that an append does not begin with a list.

import type { Hash } from "node:crypto";
import type { ObjectStore } from "@exclave/oci/objects";
import { coverOf, type LogChunk, sizeOf } from "./log-chunks.ts";
import { chunksOf } from "./log-merges.ts";

export interface KnownLog {
  readonly cover: readonly LogChunk[];
  readonly seenAt: number;
  /** When this server last appended to it. */
  readonly appendedAt?: number | undefined;
  /** Of all that is kept, where all of it came through here. */
  readonly hash?: Hash | undefined;
}

/** Whoever appends is alone: an agent's link is with one server, and a new link begins with a fresh look. */
const TRUST_OWN_MS = 60_000;
/** To readers, others may have written meanwhile. */
const TRUST_MS = 400;
const KNOWN_MAX = 10_000;

export interface LogIndex {
  look(log: string): Promise<KnownLog>;
  lookLately(log: string): Promise<KnownLog>;
  lookAsWriter(log: string): Promise<KnownLog>;
  remember(log: string, one: KnownLog): KnownLog;
  forget(log: string): void;
}

export function createLogIndex(objects: ObjectStore, now: () => number): LogIndex {
  const known = new Map<string, KnownLog>();

  return { look, lookLately, lookAsWriter, remember, forget: (log) => void known.delete(log) };

  async function lookAsWriter(log: string): Promise<KnownLog> {
    const last = known.get(log);
    const isOwn = last?.appendedAt !== undefined && now() - last.appendedAt < TRUST_OWN_MS;
    return isOwn ? last : look(log);
  }

  async function lookLately(log: string): Promise<KnownLog> {
    const last = known.get(log);
    return last && now() - last.seenAt < TRUST_MS ? last : look(log);
  }

  async function look(log: string): Promise<KnownLog> {
    const seenAt = now();
    const before = known.get(log);
    const chunks = await chunksOf(objects, log);
    const last = known.get(log);
    // Appended to since the list was asked for: it may lack what has come.
    const listed = sizeOf(coverOf(chunks));
    const newer = last === before ? [] : (last?.cover ?? []).filter(({ end }) => end > listed);
    const cover = coverOf([...chunks, ...newer]);
    const isSame = last !== undefined && sizeOf(last.cover) === sizeOf(cover);
    const own = isSame ? { appendedAt: last.appendedAt, hash: last.hash } : {};
    return remember(log, { cover, seenAt, ...own });
  }

  function remember(log: string, one: KnownLog): KnownLog {
    // The one that was not used for the longest time goes.
    known.delete(log);
    known.set(log, one);
    const [oldest] = known.keys();
    if (known.size > KNOWN_MAX && oldest !== undefined) known.delete(oldest);
    return one;
  }
}
