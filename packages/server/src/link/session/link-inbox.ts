// What waits to be taken in on one connection, one at a time. An agent that is too fast is not read from meanwhile.

import { setImmediate } from "node:timers/promises";
import { INBOX_BYTES_MAX, INBOX_FRAMES_MAX, type Timers } from "@exclave/api";
import type { WebSocket } from "ws";
import type { LinkInput } from "../link-state.ts";
import { rateOf } from "./agent-quota.ts";
import { createAllowance } from "./allowance.ts";
import type { LinkConnection } from "./link-connection.ts";

export interface LinkInbox {
  add(waiting: Waiting): void;
  /** There is so much to read that the agent has to wait. */
  isFull(): boolean;
  clear(): void;
}

export interface Waiting {
  /** Gathers what the machine needs to know, when its turn has come. */
  readonly read: () => Promise<LinkInput | undefined>;
  /** Set for what came from the agent. */
  readonly bytes?: number;
}

export interface LinkInboxOptions {
  readonly connection: LinkConnection;
  readonly socket: WebSocket;
  readonly now: () => number;
  readonly timers: Timers;
  /** Lets others go first; a turn of the event loop unless given. */
  readonly nextTurn?: (() => Promise<void>) | undefined;
  readonly take: (input: LinkInput) => Promise<void>;
  /** One could not be taken; those after it still wait. */
  readonly onFailed: (reason: unknown) => Promise<void>;
}

export function createLinkInbox(options: LinkInboxOptions): LinkInbox {
  const { connection, socket, now, timers, take, onFailed, nextTurn = setImmediate } = options;
  const inbox: Waiting[] = [];
  let inboxBytes = 0;
  let isBusy = false;
  const isOver = () => connection.state.phase === "closed";
  const allowance = createAllowance({ now, isOver, timers });

  return {
    add,
    isFull: () => inbox.length >= INBOX_FRAMES_MAX,
    clear: () => {
      inbox.length = 0;
    },
  };

  function add(waiting: Waiting): void {
    if (isOver()) return;
    inbox.push(waiting);
    inboxBytes += waiting.bytes ?? 0;
    if (inbox.length > INBOX_FRAMES_MAX || inboxBytes > INBOX_BYTES_MAX) socket.pause();
    if (!isBusy) void work();
  }

  async function work(): Promise<void> {
    isBusy = true;
    try {
      for (let next = inbox.shift(); next; next = inbox.shift()) {
        inboxBytes -= next.bytes ?? 0;
        await takeNext(next);
        // The store answers at once: without this, all that an agent has sent would be done before anybody else is heard.
        if (inbox.length > 0) await nextTurn();
      }
    } catch (reason) {
      await onFailed(reason);
    } finally {
      isBusy = false;
    }
  }

  async function takeNext({ read, bytes }: Waiting): Promise<void> {
    if (bytes !== undefined) await allowance("frame", connection.peer?.quota);
    if (socket.isPaused && inbox.length < INBOX_FRAMES_MAX / 2) socket.resume();
    const input = await read();
    if (!input) return;
    const rate = rateOf(input);
    if (rate) await allowance(rate, connection.peer?.quota);
    await take(input);
  }
}
