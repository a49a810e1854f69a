// What waits to be taken in on one connection, one at a time. An agent that is too fast is not read from meanwhile.

import { setImmediate } from "node:timers/promises";
import { INBOX_BYTES_MAX, INBOX_FRAMES_MAX, type LogFrame, type Timers } from "@exclave/api";
import type { WebSocket } from "ws";
import type { LinkInput } from "../link-state.ts";
import { rateOf } from "./agent-quota.ts";
import { createAllowance } from "./allowance.ts";
import { createJoinedLogs } from "./join-logs.ts";
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
  /** A control frame: after the hello, to read one takes nothing that those before it may still change. */
  readonly isControl?: boolean;
  /** Log data: pieces that wait are taken together. */
  readonly log?: LogFrame;
}

/** Control frames that wait are taken together: their writes are one transaction. So few, that nobody waits for long. */
const TOGETHER_MAX = 8;

export interface LinkInboxOptions {
  readonly connection: LinkConnection;
  readonly socket: WebSocket;
  readonly now: () => number;
  readonly timers: Timers;
  /** Lets others go first; a turn of the event loop unless given. */
  readonly nextTurn?: (() => Promise<void>) | undefined;
  /** Gathers what the machine needs to know of log data. */
  readonly readLog: (frame: LogFrame) => Promise<LinkInput>;
  readonly take: (inputs: readonly LinkInput[]) => Promise<void>;
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
      // Frames that came in one piece are all here before the first of them is read.
      await Promise.resolve();
      for (let next = inbox.shift(); next; next = inbox.shift()) {
        await takeWithFollowing(next);
        // The store answers at once: without this, all that an agent has sent would be done before anybody else is heard.
        if (inbox.length > 0) await nextTurn();
      }
    } catch (reason) {
      await onFailed(reason);
    } finally {
      isBusy = false;
    }
  }

  async function takeWithFollowing(first: Waiting): Promise<void> {
    const inputs: LinkInput[] = first.log ? await readLogs(first, first.log) : [];
    if (first.log) return inputs.length > 0 ? take(inputs) : undefined;
    for (let next: Waiting | undefined = first; next; next = following(next, inputs.length)) {
      const input = await read(next);
      if (input) inputs.push(input);
    }
    if (inputs.length > 0) await take(inputs);
  }

  /** Of as many bytes as the inbox holds, so no more are copied than wait. */
  async function readLogs(first: Waiting, log: LogFrame): Promise<LinkInput[]> {
    const joined = createJoinedLogs();
    joined.add(log);
    await allow(first);
    for (let next = inbox[0]; next?.log && joined.add(next.log); next = inbox[0]) {
      inbox.shift();
      await allow(next);
    }
    return Promise.all(joined.frames().map(options.readLog));
  }

  function following({ isControl }: Waiting, count: number): Waiting | undefined {
    const isLive = connection.state.phase === "live";
    const isNext = isLive && isControl && inbox[0]?.isControl && count < TOGETHER_MAX;
    return isNext ? inbox.shift() : undefined;
  }

  async function allow({ bytes }: Waiting): Promise<void> {
    inboxBytes -= bytes ?? 0;
    if (bytes !== undefined) await allowance("frame", connection.peer?.quota);
    if (socket.isPaused && inbox.length < INBOX_FRAMES_MAX / 2) socket.resume();
  }

  async function read(waiting: Waiting): Promise<LinkInput | undefined> {
    await allow(waiting);
    const input = await waiting.read();
    const rate = input && rateOf(input);
    if (rate) await allowance(rate, connection.peer?.quota);
    return input;
  }
}
