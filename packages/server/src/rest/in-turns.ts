// Makes many views for one answer, a few milliseconds at a time: the store answers at once, so a long row of them would
// otherwise keep every socket unread until all are done.

import { setImmediate as nextTurn } from "node:timers/promises";

const TURN_MS = 4;

/** One after the other; what they cost is charged to whoever asked. */
export async function inTurns<Item, View>(
  items: readonly Item[],
  charge: (ms: number) => void,
  view: (item: Item) => View | Promise<View>,
): Promise<View[]> {
  const views: View[] = [];
  let began = performance.now();
  for (const item of items) {
    views.push(await view(item));
    const tookMs = performance.now() - began;
    if (tookMs < TURN_MS) continue;
    charge(tookMs);
    await nextTurn();
    began = performance.now();
  }
  return views;
}
