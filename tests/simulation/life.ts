// One run of one process. What it does to the world goes through ports that end with it: when it
// crashes, every call under way or made later is lost, as if the process were gone. Each call is two
// points at which it may crash: before anything happened, and after it happened but before it is known.

import { note, type World } from "./world.ts";

export interface Life {
  readonly name: string;
  readonly isOver: boolean;
  crash(because: string): void;
  /** The port as this life sees it. Names of methods that answer at once are given; others promise. */
  port<Port extends object>(label: string, port: Port, options?: PortOptions): Port;
}

export interface PortOptions {
  /** Methods that return a value and no promise. */
  readonly sync?: readonly string[];
  /** Methods that only look: crashing there would be crashing before the next thing. */
  readonly quiet?: readonly string[];
}

/** Thrown by what answers at once when the life it was asked in is over. */
export class LifeOver extends Error {}

export function startLife(world: World, name: string, onOver: () => void): Life {
  let isOver = false;
  const life: Life = {
    name,
    get isOver() {
      return isOver;
    },
    crash(because) {
      if (isOver) return;
      isOver = true;
      note(world, `${name} crashes ${because}`);
      onOver();
    },
    port,
  };
  return life;

  function port<Port extends object>(label: string, target: Port, options: PortOptions = {}): Port {
    const { sync = [], quiet = [] } = options;
    const wrapped = new Map<string, unknown>();
    return new Proxy(target, {
      get(of, key, receiver) {
        const known = typeof key === "string" ? wrapped.get(key) : undefined;
        if (known) return known;
        const value: unknown = Reflect.get(of, key, receiver);
        if (typeof value !== "function" || typeof key !== "string") return value;
        const made = wrap(of, key, value as (...args: unknown[]) => unknown);
        wrapped.set(key, made);
        return made;
      },
    });

    function wrap(of: Port, key: string, value: (...args: unknown[]) => unknown): unknown {
      const call = (...args: unknown[]) => value.apply(of, args);
      const point = `${name} ${label}.${key}`;
      if (quiet.includes(key))
        return (...args: unknown[]) => (isOver ? lost(sync.includes(key)) : call(...args));
      return sync.includes(key) ? atOnce(point, call) : promised(point, call);
    }
  }

  function atOnce(point: string, call: (...args: unknown[]) => unknown) {
    const [before, after] = [`before ${point}`, `after ${point}`];
    return (...args: unknown[]) => {
      pass(before);
      if (isOver) return lost(true);
      const result = call(...args);
      pass(after);
      return isOver ? lost(true) : result;
    };
  }

  function promised(point: string, call: (...args: unknown[]) => unknown) {
    const [before, after] = [`before ${point}`, `after ${point}`];
    return async (...args: unknown[]) => {
      pass(before);
      if (isOver) return lost(false);
      const result = await call(...args);
      if (isOver) return lost(false);
      pass(after);
      return isOver ? lost(false) : result;
    };
  }

  function pass(point: string): void {
    if (!isOver && world.crashesAt(point)) life.crash(point);
  }
}

function lost(isSync: boolean): unknown {
  if (isSync) throw new LifeOver("this life is over");
  return new Promise(() => undefined);
}
