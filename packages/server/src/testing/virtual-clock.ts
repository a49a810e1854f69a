// A server whose time stands still until the test moves it on.

import type { TestContext } from "node:test";
import type { InstallView } from "@exclave/api";
import { create, show, type World, world } from "./deployed-world.ts";
import { release } from "./scripted-vendor.ts";
import { until } from "./test-server.ts";

export interface TimedWorld extends World {
  readonly now: () => number;
  /** Moves the clock and waits until the install has nothing left to do at that time. */
  pass(ms: number): Promise<InstallView>;
}

export async function timedWorld(t: TestContext): Promise<TimedWorld> {
  let clock = Date.now();
  // No ping is due while the clock leaps: a leap is not silence.
  const at = await world(t, { now: () => clock, pingMs: 2_000_000_000 });
  const pass = async (ms: number) => {
    clock += ms;
    at.server.server.context.wake.allInstalls();
    return until(
      () => show(at),
      ({ phase }) => phase === "held" || phase === "settled",
      "acme is at rest",
    );
  };
  return { ...at, now: () => clock, pass };
}

/** Releases the app and makes the install; how its jobs end was said before. */
export async function deployTimed(
  at: TimedWorld,
  config: string,
  sources: Record<string, string>,
): Promise<InstallView> {
  await release(at.server, config, sources, { channel: "stable" });
  await create(at);
  return at.pass(0);
}
