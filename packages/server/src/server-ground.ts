// What a server stands on, opened before it listens: its memory, its keys, its record.

import { createSystemTimers, type Timers } from "@exclave/api";
import { Instant } from "@exclave/core";
import { writeDurably } from "@exclave/machine";
import type { Logger } from "pino";
import { type Checkpoints, openCheckpoints } from "./audit/checkpoints.ts";
import { shownSizeIn } from "./audit/shown-size.ts";
import type { DataDirectory } from "./data-directory.ts";
import { newSecret } from "./identifiers.ts";
import { type Keys, loadKeys, readIfThere } from "./keys.ts";
import { createMemoryPeers } from "./peers/memory-peers.ts";
import type { Peers } from "./peers/peers.ts";
import { openPostgresPeers } from "./peers/postgres-peers.ts";
import { tokenRow } from "./rest/tokens.ts";
import { startSignerProcess } from "./signer/open-signer.ts";
import type { Signer } from "./signer/signer.ts";
import { openStore } from "./store/open-store.ts";
import type { Store } from "./store/store.ts";
import type { Trust } from "./trust/trust.ts";

export interface Ground {
  readonly store: Store;
  /** The servers that share it. */
  readonly peers: Peers;
  readonly keys: Keys;
  readonly signer: Signer;
  readonly checkpoints: Checkpoints;
  readonly timers: Timers;
  readonly now: () => Instant;
  readonly log: Logger;
}

export interface GroundOptions {
  readonly databaseUrl?: string;
  /** How agents and people reach it, as far as it is known before it listens. */
  readonly address: string | undefined;
  readonly version: string;
  readonly log: Logger;
  readonly now?: () => number;
  readonly openSigner?: (keys: string) => Signer | Promise<Signer>;
}

export async function openGround(
  directory: DataDirectory,
  options: GroundOptions,
  trust: () => Trust,
): Promise<Ground> {
  const { log } = options;
  const now = () => Instant.parse((options.now ?? Date.now)());
  let peers: Peers | undefined;
  const member = () => peers?.self();
  const store = await openStore(directory.database, options.databaseUrl, { member });
  try {
    peers = await openPeers(directory, options);
    const joined = peers;
    // What the first of several servers makes, the others find.
    return await peers.alone("start", async () => {
      const keys = await loadKeys(directory.keys);
      const openSigner = options.openSigner ?? ((place) => startSignerProcess(place, { log }));
      const signer = await openSigner(directory.keys);
      // Before anything is appended: this is what was there.
      const checkpoints = await openCheckpoints({
        store,
        trust,
        now,
        shownSize: shownSizeIn(directory.shownSize),
        isShared: () => joined.servers().length > 1,
      });
      await ensureAdminToken(store, directory.adminToken, now);
      const timers = createSystemTimers();
      return { store, peers: joined, keys, signer, checkpoints, timers, now, log };
    });
  } catch (reason) {
    await peers?.close();
    await store.close();
    throw reason;
  }
}

async function openPeers(
  { id }: Pick<DataDirectory, "id">,
  { databaseUrl: url, address, version, log }: GroundOptions,
): Promise<Peers> {
  if (url === undefined) return createMemoryPeers();
  return openPostgresPeers({ url, label: { version, directory: id, publicUrl: address }, log });
}

/** The first token of a new server. Its value lies in a file that its owner alone can read. */
async function ensureAdminToken(store: Store, file: string, now: () => Instant): Promise<void> {
  const kept = (await readIfThere(file))?.trim();
  const secret = kept ?? `exclave_${newSecret(32)}`;
  if (kept === undefined) await writeDurably(file, `${secret}\n`);
  await store.transaction(async (tx) => {
    const row = tokenRow({ name: "admin", role: "admin" }, secret, now());
    // The file is written first: a crash in between leaves a token nobody knows of yet.
    if (await tx.tokens.byHash(row.hash)) return;
    await tx.tokens.put(row);
    await tx.audit.append({
      at: now(),
      actor: "server",
      action: "token.created",
      subject: row.id,
      details: { name: row.name, role: row.role, because: "first start" },
    });
  });
}
