import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Instant } from "../ids.ts";
import {
  CHECKPOINTS_MAX,
  type Checkpoint,
  judgeRecord,
  keepCheckpoint,
  type SeenCheckpoint,
} from "./checkpoint.ts";

const hash = (letter: string) => letter.repeat(64);
const at = (minutes: number) => Instant.parse(1_700_000_000_000 + minutes * 60_000);

function seenAt(size: number, letter: string, minutes = size): SeenCheckpoint {
  return { serverId: "one", size, head: hash(letter), at: at(minutes) };
}

function checkpoint(size: number, letter: string, given: Partial<Checkpoint> = {}): Checkpoint {
  return { ...seenAt(size, letter), at: at(size), setBack: [], ...given };
}

const head = (size: number, letter: string) => ({ size, head: hash(letter) });

describe("a record", () => {
  const seen = [seenAt(5, "a"), seenAt(10, "b")];

  test("continues what was seen when it passes through all of it", () => {
    const heads = [head(5, "a"), head(10, "b")];

    const longer = judgeRecord({ seen, checkpoint: checkpoint(12, "c"), heads });
    const same = judgeRecord({ seen, checkpoint: checkpoint(10, "b"), heads: [head(5, "a")] });
    const first = judgeRecord({ seen: [], checkpoint: checkpoint(3, "x"), heads: [] });

    for (const verdict of [longer, same, first]) assert.deepEqual(verdict, { kind: "continues" });
  });

  const LIES: Record<string, [Checkpoint, ReturnType<typeof head>[]]> = {
    "was rewritten and rehashed": [checkpoint(12, "z"), [head(5, "a"), head(10, "y")]],
    "was rewritten long ago": [checkpoint(12, "c"), [head(5, "x"), head(10, "b")]],
    "has the same size and another end": [checkpoint(10, "z"), [head(5, "a")]],
    "was shortened": [checkpoint(7, "s"), [head(5, "a")]],
    "says nothing of what was seen": [checkpoint(12, "c"), []],
    "is another server's": [
      checkpoint(12, "c", { serverId: "two" }),
      [head(5, "a"), head(10, "b")],
    ],
  };
  for (const [lie, [shown, heads]] of Object.entries(LIES)) {
    test(`is refused when it ${lie}`, () => {
      assert.equal(judgeRecord({ seen, checkpoint: shown, heads }).kind, "refused");
    });
  }

  test("that was set back is taken when the server says so, and what it kept is what was seen", () => {
    const setBack = [{ keptSize: 7, head: hash("k"), at: at(11) }];
    const shown = checkpoint(9, "n", { setBack });

    const taken = judgeRecord({ seen, checkpoint: shown, heads: [head(5, "a")] });
    const lying = judgeRecord({ seen, checkpoint: shown, heads: [head(5, "x")] });

    assert.equal(taken.kind === "set_back" && taken.keptSize, 7);
    assert.equal(lying.kind, "refused");
  });

  test("that was set back twice is taken as far as the deeper of the two kept it", () => {
    const deep = { keptSize: 4, head: hash("d"), at: at(11) };
    const setBack = [deep, { keptSize: 7, head: hash("k"), at: at(12) }];
    const shown = checkpoint(9, "n", { setBack });

    const taken = judgeRecord({ seen, checkpoint: shown, heads: [head(5, "x")] });

    assert.equal(taken.kind === "set_back" && taken.keptSize, 4);
  });

  test("that was rewritten is not excused by a set-back from before it was seen, or one that lost nothing", () => {
    const heads = [head(5, "a"), head(10, "y")];
    const old = checkpoint(12, "z", { setBack: [{ keptSize: 7, head: hash("k"), at: at(9) }] });
    const idle = checkpoint(12, "z", { setBack: [{ keptSize: 10, head: hash("k"), at: at(11) }] });

    assert.equal(judgeRecord({ seen, checkpoint: old, heads }).kind, "refused");
    assert.equal(judgeRecord({ seen, checkpoint: idle, heads }).kind, "refused");
  });
});

test("a bounded list of checkpoints keeps the first and the latest, and spreads what is between", () => {
  let kept: readonly SeenCheckpoint[] = [];
  for (let minute = 1; minute <= 60 * 24 * 30; minute += 5) {
    kept = keepCheckpoint(kept, seenAt(minute, "a"));
  }

  assert.equal(kept.length, CHECKPOINTS_MAX);
  assert.equal(kept[0]?.size, 1);
  assert.equal(kept.at(-1)?.size, 60 * 24 * 30 - 4);
  const middle = kept.filter(({ size }) => size > 60 * 24 * 5 && size < 60 * 24 * 25);
  assert.ok(middle.length >= 5, "the month between them is covered");
});
