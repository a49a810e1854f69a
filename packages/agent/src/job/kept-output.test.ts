import assert from "node:assert/strict";
import { test } from "node:test";
import { createFakeRuntime, type FakePlace } from "@exclave/runtime/testing";
import { DIGEST, job, recordOf } from "../testing/builders.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { openKeptOutputs, wholeOutput } from "./kept-output.ts";

const { name } = recordOf(job());
const image = { registryUrl: "http://install.test", repository: "r", digest: DIGEST };
const given = { files: {}, environment: {}, limits: {}, deadlineMs: 60_000 };
const spec = { name, image, jobClass: "apply", network: "none", ...given } as const;

/** A job that says what it is told to, on a runtime that keeps the last eight bytes. */
async function rotating() {
  const place: FakePlace = new Map();
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  let say: (text: string) => void = () => undefined;
  const runtime = createFakeRuntime({
    place,
    outputBytesKept: 8,
    programOf: () => async (told) => {
      say = told.say;
      await over;
      return 0;
    },
  });
  await runtime.start(spec);
  return { runtime, say: (text: string) => say(text), end };
}

async function readUntil(chunks: AsyncIterable<Uint8Array>, last?: string): Promise<string> {
  let text = "";
  for await (const chunk of chunks) {
    text += Buffer.from(chunk).toString();
    if (last !== undefined && text.endsWith(last)) break;
  }
  return text;
}

const { signal } = new AbortController();

test("output that was read is kept, and resumed behind it by the next life of the agent", async (t) => {
  const directory = await temporaryDirectory(t);
  const { runtime, say, end } = await rotating();
  const life = async (last?: string) => {
    const kept = await openKeptOutputs(runtime, directory);
    return readUntil(wholeOutput({ runtime, kept, name, signal }), last);
  };

  say("first\n");
  assert.equal(await life("first\n"), "first\n");
  say("second\n");
  assert.equal(await life("second\n"), "first\nsecond\n");
  say("third\n");
  end();

  // The runtime has the last eight bytes by now.
  assert.equal(await life(), "first\nsecond\nthird\n");
  assert.equal(await life(), "first\nsecond\nthird\n");
});

test("what was rotated away before anybody read it is a gap that says so, and the rest follows", async (t) => {
  const directory = await temporaryDirectory(t);
  const { runtime, say, end } = await rotating();
  const life = async (last?: string) => {
    const kept = await openKeptOutputs(runtime, directory);
    return readUntil(wholeOutput({ runtime, kept, name, signal }), last);
  };

  say("first\n");
  await life("first\n");
  say("nobody reads this\n");
  say("the end\n");
  end();

  const whole = "first\n\nexclave: bytes 6 to 24 of the output were rotated away\nthe end\n";
  assert.equal(await life(), whole);
  assert.equal(await life(), whole);
});

test("kept output goes with its job, and what a crash left of others is swept", async (t) => {
  const directory = await temporaryDirectory(t);
  const { runtime, say, end } = await rotating();
  say("said\n");
  end();
  const kept = await openKeptOutputs(runtime, directory);
  await readUntil(wholeOutput({ runtime, kept, name, signal }));

  await runtime.remove(name);
  const later = await openKeptOutputs(runtime, directory);

  const file = await later?.open(name);
  assert.equal(file?.next, 0);
  await file?.close();
});
