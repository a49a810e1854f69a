import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { PassThrough } from "node:stream";
import { describe, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { digestOf } from "../../content/digest.ts";
import { receiveBody } from "./receive-body.ts";

/** What was handed over, copied: a batch's memory is given back once it has been taken. */
function keeper() {
  const kept: Buffer[] = [];
  return {
    take: async (batch: Buffer[]) => {
      kept.push(Buffer.from(Buffer.concat(batch)));
      await setImmediate();
    },
    kept,
    all: () => Buffer.concat(kept),
  };
}

describe("receiveBody", () => {
  test("hands over every byte in order, by the megabyte", async () => {
    const bytes = randomBytes(5_300_000);
    const body = new PassThrough();
    const { take, kept, all } = keeper();

    const receiving = receiveBody(body, take);
    for (let at = 0; at < bytes.length; at += 65_536) {
      if (!body.write(Buffer.from(bytes.subarray(at, at + 65_536)))) await setImmediate();
    }
    body.end();
    await receiving;

    assert.equal(digestOf(all()), digestOf(bytes));
    assert.ok(kept.length < 20);
  });

  test("waits with the next batch until the last one is taken", async () => {
    const body = new PassThrough();
    let taking = 0;
    let most = 0;
    const receiving = receiveBody(body, async () => {
      most = Math.max(most, ++taking);
      await setImmediate();
      taking--;
    });
    for (let n = 0; n < 64; n++) body.write(randomBytes(65_536));
    body.end();
    await receiving;

    assert.equal(most, 1);
  });

  test("tiny chunks are made into few, which are the same bytes", async () => {
    const bytes = randomBytes(100_000);
    const body = new PassThrough({ highWaterMark: bytes.length });
    const { take, all } = keeper();
    let most = 0;
    const receiving = receiveBody(body, (batch) => {
      most = Math.max(most, batch.length);
      return take(batch);
    });

    for (const byte of bytes) body.write(Buffer.of(byte));
    body.end();
    await receiving;

    assert.ok(most < 1_200, `${most} at once`);
    assert.ok(all().equals(bytes));
  });

  test("what comes slowly is handed on in a moment", async () => {
    const body = new PassThrough();
    const taken = Promise.withResolvers<string>();
    const receiving = receiveBody(body, async (batch) => taken.resolve(String(batch)));

    body.write("few");

    assert.equal(await taken.promise, "few");
    body.end();
    await receiving;
  });

  test("of nothing is nothing", async () => {
    const body = new PassThrough();
    const { take, kept } = keeper();
    body.end();

    await receiveBody(body, take);

    assert.deepEqual(kept, []);
  });

  test("hands over what came before a break, and then says that it broke", async () => {
    const body = new PassThrough();
    const { take, all } = keeper();
    const receiving = receiveBody(body, take);
    body.write("half");
    await setImmediate();

    body.destroy();

    await assert.rejects(receiving, /ended before the body did/);
    assert.equal(all().toString(), "half");
  });

  test("a body that is over already is not waited for", async () => {
    const body = new PassThrough();
    body.destroy();
    await setImmediate();

    await assert.rejects(receiveBody(body, keeper().take), /ended before the body did/);
  });

  test("ends at once with the failure of whoever takes", async () => {
    const body = new PassThrough();
    const receiving = receiveBody(body, async () => {
      throw new Error("no room");
    });
    body.write(randomBytes(2_000_000));

    await assert.rejects(receiving, /no room/);
  });
});
