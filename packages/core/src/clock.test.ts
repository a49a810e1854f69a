import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createClock } from "./clock.ts";

describe("a program's clock", () => {
  test("is the machine's where no test sets it", () => {
    const machine = () => 1_000;

    const readFile = () => assert.fail("no file is looked for");
    const clock = createClock({ machine, directory: undefined, program: "server", readFile });

    assert.equal(clock, machine);
  });

  test("is wrong by what the file says, and right again without it", () => {
    let text: string | undefined = "-7200000\n";
    let at = 10_000_000;
    const readFile = (path: string) => {
      assert.equal(path, "/clocks/server");
      return text ?? assert.fail("there is no file");
    };
    const place = { directory: "/clocks", program: "server", readFile };
    const clock = createClock({ machine: () => at, ...place });

    assert.equal(clock(), 2_800_000);
    text = undefined;
    assert.equal(clock(), 2_800_000, "the file is read ten times a second");
    at += 100;
    assert.equal(clock(), at);
    text = "no number";
    at += 100;
    assert.equal(clock(), at);
  });
});
