// Connections between agents and the server. Each direction is a queue that delivers as time passes;
// either end may notice the end of a connection long before the other, so that frames of an old
// connection still arrive when a new one is up. Frames may get lost, come twice or change places.

import { EventEmitter } from "node:events";
import { note, type World } from "./world.ts";

export interface Pipe {
  /** The server's end, as a WebSocket as far as the link session looks at one. */
  readonly serverEnd: SimulatedSocket;
  readonly agentEnd: SimulatedSocket;
}

const HANDSHAKE = /^\{"type":"(?:challenge|hello|welcome)"/;
const LATENCY_MS_MAX = 40;
const UNNOTICED_MS = 30_000;

export function createPipe(world: World, label: string): Pipe {
  const serverEnd = new SimulatedSocket(world);
  const agentEnd = new SimulatedSocket(world);
  connect(world, `${label} → server`, agentEnd, serverEnd);
  connect(world, `${label} → agent`, serverEnd, agentEnd);
  return { serverEnd, agentEnd };
}

/** As much of a WebSocket as both shells use. */
export class SimulatedSocket extends EventEmitter {
  readonly OPEN = 1;
  readyState = 1;
  bufferedAmount = 0;
  isPaused = false;
  onSend: (data: string | Uint8Array) => void = () => undefined;
  /** What goes out in place of what was said. */
  alter: (data: string | Uint8Array) => string | Uint8Array = (data) => data;
  /** Looks at what is said before it is said. */
  onSay: (data: string | Uint8Array) => void = () => undefined;
  /** Hears what arrives before whoever it is for. */
  onHear: (data: string | Uint8Array) => void = () => undefined;
  onClose: () => void = () => undefined;
  readonly #world: World;

  constructor(world: World) {
    super();
    this.#world = world;
  }

  send(data: string | Uint8Array): void {
    if (this.readyState !== this.OPEN) return;
    this.onSay(data);
    this.onSend(this.alter(data));
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  close(): void {
    if (this.readyState !== this.OPEN) return;
    this.end();
    this.onClose();
  }

  terminate(): void {
    this.close();
  }

  /** This end notices that the connection is over. */
  end(): void {
    if (this.readyState !== this.OPEN) return;
    this.readyState = 3;
    this.#world.time.timersFor(() => true).after(0, () => this.emit("close", 1006));
  }

  /** Its process is gone: nothing is noticed here, and nothing is said any more. */
  die(): void {
    this.removeAllListeners();
    if (this.readyState !== this.OPEN) return;
    this.readyState = 3;
    this.onClose();
  }
}

function connect(world: World, label: string, from: SimulatedSocket, to: SimulatedSocket): void {
  const timers = world.time.timersFor(() => true);
  const queue: (string | Uint8Array)[] = [];
  from.onSend = (data) => {
    queue.push(data);
    timers.after(1 + world.dice.below(LATENCY_MS_MAX), deliver);
  };
  // The other end hears of it later, or, where the network swallowed it, when it gives up.
  from.onClose = () => {
    const isSwallowed = world.isTroubled && world.dice.chance(0.2);
    timers.after(isSwallowed ? UNNOTICED_MS : 1 + world.dice.below(100), () => to.end());
  };

  function deliver(): void {
    const data = take(world, queue, () => timers.after(1, deliver));
    if (data === undefined || to.readyState !== to.OPEN) return;
    note(world, `${label} ${describe(data)}`);
    to.onHear(data);
    const isBinary = typeof data !== "string";
    to.emit("message", Buffer.from(data as string), isBinary);
  }
}

function take(
  world: World,
  queue: (string | Uint8Array)[],
  deliverAgain: () => void,
): string | Uint8Array | undefined {
  const data = queue.shift();
  if (data === undefined || isHandshake(data) || !world.strikes("frame-lost")) return data;
  const { dice } = world;
  const roll = dice.below(3);
  if (roll === 0) return undefined;
  if (roll === 1) {
    queue.unshift(data);
    deliverAgain();
  }
  const [next] = queue;
  if (roll < 2 || next === undefined || isHandshake(next)) return data;
  queue[0] = data;
  return next;
}

function isHandshake(data: string | Uint8Array): boolean {
  return typeof data === "string" && HANDSHAKE.test(data);
}

function describe(data: string | Uint8Array): string {
  if (typeof data !== "string") return `${data.length} bytes of log`;
  return data.length > 140 ? `${data.slice(0, 140)}…` : data;
}
