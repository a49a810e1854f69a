import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createDisplay } from "./display.ts";

function shown(isLive: boolean, options: { isQuiet?: boolean; columns?: number } = {}) {
  let text = "";
  const display = createDisplay({
    write: (part) => (text += part),
    isLive,
    isQuiet: options.isQuiet ?? false,
    columns: () => options.columns ?? 40,
    rows: () => 10,
  });
  return { display, text: () => text };
}

describe("a display", () => {
  test("away from a terminal writes each line once, when it becomes true", () => {
    const { display, text } = shown(false);

    display.update(["web waiting"]);
    display.update(["web waiting", "api deployed"]);
    display.note("remark");
    display.update(["web deployed", "api deployed"]);

    assert.equal(text(), "web waiting\napi deployed\nremark\nweb deployed\n");
  });

  test("on a terminal takes back what it drew before it draws again", () => {
    const { display, text } = shown(true);

    display.update(["a", "b"]);
    display.update(["a", "c"]);

    assert.equal(text(), "a\nb\n\u001B[2A\u001B[0Ja\nc\n");
  });

  test("on a terminal keeps remarks above, and draws nothing for no change", () => {
    const { display, text } = shown(true);

    display.update(["a"]);
    display.update(["a"]);
    display.note("remark");

    assert.equal(text(), "a\n\u001B[1A\u001B[0Jremark\na\n");
  });

  test("cuts lines to the width, so that each takes one row", () => {
    const { display, text } = shown(true, { columns: 6 });

    display.update(["\u001B[32mabcdefgh\u001B[0m"]);

    assert.equal(text(), "abcd…\n");
  });

  test("is silent when asked", () => {
    const { display, text } = shown(true, { isQuiet: true });

    display.update(["a"]);
    display.note("b");

    assert.equal(text(), "");
  });
});
