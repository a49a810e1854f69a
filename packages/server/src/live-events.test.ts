import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { Writable } from "node:stream";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { createLiveEvents, type SaidEvent } from "./live-events.ts";
import { EVENT_HANDLERS } from "./rest/events.ts";
import type { HandlerInput } from "./rest/handler.ts";

const ACME = { id: "i-acme", name: "acme" };

function saying(message: string, install: SaidEvent["install"] = null): SaidEvent {
  return { kind: "job", subject: "j", component: null, message, install };
}

async function take(events: AsyncIterable<{ message: string }>, count: number): Promise<string[]> {
  const messages: string[] = [];
  for await (const { message } of events) {
    messages.push(message);
    if (messages.length === count) break;
  }
  return messages;
}

test("a watcher sees what was kept after its place, then what comes, of its install alone", async () => {
  const live = createLiveEvents({ now: () => 1 });
  const { signal } = new AbortController();
  for (const n of [1, 2, 3]) live.say(saying(`${n}`, n === 2 ? null : ACME));

  const all = take(live.watch({ after: 1_001, signal }), 3);
  const own = take(live.watch({ after: 0, install: ACME.id, signal }), 3);
  const fresh = take(live.watch({ signal }), 1);
  const ahead = take(live.watch({ after: 1e15, signal }), 1);
  await nextTurn();
  live.say(saying("4", ACME));

  assert.deepEqual(await all, ["2", "3", "4"]);
  assert.deepEqual(await own, ["1", "3", "4"]);
  assert.deepEqual([await fresh, await ahead], [["4"], ["4"]]);
});

test("a watcher that does not read is left behind, and nothing is kept for it", async () => {
  const live = createLiveEvents({ now: () => 1 });
  const watched = live.watch({ after: 0, signal: new AbortController().signal });
  const reader = watched[Symbol.asyncIterator]();
  live.say(saying("first"));
  assert.equal((await reader.next()).value?.message, "first");

  for (let n = 0; n < 5_000; n++) live.say(saying(`${n}`));

  assert.equal((await reader.next()).done, true);
});

test("an event stream holds no more than a buffer for whoever does not read it", async (t) => {
  const live = createLiveEvents({ now: () => 1 });
  const [watching] = EVENT_HANDLERS;
  // Takes the first bytes, and is never done with them.
  const raw = Object.assign(new Writable({ write: () => undefined }), { writeHead: () => raw });
  const reply = { raw, hijack: () => undefined };
  const input = { query: {}, request: { raw: new EventEmitter() }, reply, context: { live } };
  const handled = watching?.handle(input as unknown as HandlerInput<never>);
  await nextTurn();

  for (let n = 0; n < 300; n++) {
    live.say(saying("x".repeat(4_096)));
    await nextTurn();
  }
  const heldBytes = raw.writableLength;
  raw.emit("close");
  await handled;

  assert.ok(heldBytes < 128 * 1024, `${heldBytes} bytes`);
  t.after(() => raw.destroy());
});
