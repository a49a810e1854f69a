// A TCP proxy that treats connections badly: each by its own fate. Bytes that pass are never changed or reordered: what
// TCP itself promises, it keeps.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Dice, Fate } from "./faults.ts";

export interface FaultProxy {
  readonly port: number;
  /** How many connections ended badly, by how. */
  readonly ends: ReadonlyMap<string, number>;
  connections(): number;
  /** From now on nothing befalls anybody; whoever is half-open is cut, so that it is noticed. */
  heal(): void;
  close(): Promise<void>;
}

export interface FaultProxyOptions {
  readonly targetPort: number;
  /** Of the next connection. */
  readonly fateOf: () => Fate;
  /** For jitter. */
  readonly dice: Dice;
}

interface Passage {
  readonly client: Socket;
  readonly server: Socket;
  fate: Fate;
  /** Set while nothing passes; resolved when it does again, or never will. */
  hole: PromiseWithResolvers<void> | undefined;
  readonly timers: NodeJS.Timeout[];
}

export async function startFaultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const { targetPort, fateOf, dice } = options;
  const passages = new Set<Passage>();
  const ends = new Map<string, number>();
  let isHealed = false;
  // A side that ends its half is not ended by us before the other knows.
  const listener = createServer({ allowHalfOpen: true, pauseOnConnect: true }, open);
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");

  return {
    port: (listener.address() as AddressInfo).port,
    ends,
    connections: () => passages.size,
    heal() {
      isHealed = true;
      for (const passage of passages) {
        for (const timer of passage.timers) clearTimeout(timer);
        if (passage.hole) cut(passage);
      }
    },
    async close() {
      for (const passage of passages) cut(passage);
      listener.close();
      await once(listener, "close");
    },
  };

  function open(client: Socket): void {
    const server = connect({ port: targetPort, host: "127.0.0.1", allowHalfOpen: true });
    const passage: Passage = { client, server, fate: fateOf(), hole: undefined, timers: [] };
    passages.add(passage);
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      socket.on("error", () => cut(passage));
      socket.on("close", () => {
        if (client.destroyed && server.destroyed) passages.delete(passage);
      });
    }
    void carry(passage, client, server);
    void carry(passage, server, client);
    befall(passage);
  }

  function befall(passage: Passage): void {
    const { end } = passage.fate;
    if (isHealed || end.kind === "none") return;
    const later = (ms: number, work: () => void) =>
      void passage.timers.push(setTimeout(work, ms).unref());
    later(end.afterMs, () => {
      if (!passages.has(passage)) return;
      ends.set(end.kind, (ends.get(end.kind) ?? 0) + 1);
      if (end.kind === "cut") return cut(passage);
      if (end.kind === "reset") return reset(passage);
      passage.hole = Promise.withResolvers();
      later(end.forMs, () => cut(passage));
    });
  }

  function cut({ client, server, hole, timers }: Passage): void {
    for (const timer of timers) clearTimeout(timer);
    client.destroy();
    server.destroy();
    hole?.resolve();
  }

  function reset({ client, server }: Passage): void {
    client.resetAndDestroy();
    server.resetAndDestroy();
  }

  /** In order: the next piece is not read before this one has gone. */
  async function carry(passage: Passage, from: Socket, to: Socket): Promise<void> {
    try {
      for await (const chunk of from as AsyncIterable<Buffer>) {
        for (const piece of slices(chunk, isHealed ? Infinity : passage.fate.sliceBytes)) {
          await delay(passage, piece.length);
          if (to.destroyed) return;
          if (!to.write(piece)) await Promise.race([once(to, "drain"), once(to, "close")]);
        }
      }
      await sleep(isHealed ? 0 : passage.fate.closeDelayMs);
      await passage.hole?.promise;
      to.end();
    } catch {
      cut(passage);
    }
  }

  async function delay({ fate, hole }: Passage, bytes: number): Promise<void> {
    await hole?.promise;
    if (isHealed) return;
    const { latencyMs, jitterMs, bytesPerSecond } = fate;
    const ms = latencyMs + jitterMs * dice() + (bytes / bytesPerSecond) * 1_000;
    if (ms >= 1) await sleep(ms);
  }
}

function* slices(chunk: Buffer, bytes: number): Iterable<Buffer> {
  // So many at most that a tiny size is a nuisance and not a standstill.
  const size = Math.max(bytes, Math.ceil(chunk.length / 50));
  for (let from = 0; from < chunk.length; from += size) yield chunk.subarray(from, from + size);
}
