import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { createPrintableBytes, printable } from "./printable.ts";

const ESC = "\u001B";

test("our own colours stay, every other sequence and control goes", () => {
  assert.equal(printable(`${ESC}[32mhealthy${ESC}[0m`), `${ESC}[32mhealthy${ESC}[0m`);
  assert.equal(printable(`a${ESC}[2J${ESC}[1;1Hb`), "ab");
  assert.equal(printable(`a${ESC}]0;title\u0007b${ESC}]52;c;aGk=${ESC}\\c`), "abc");
  assert.equal(printable(`a${ESC}[8mhidden${ESC}[38;5;0m`), "ahidden");
  assert.equal(printable("good\rbad \u009B2J \u202Etxt.exe\u0008"), "good^Mbad ^[[2J txt.exe^H");
  assert.equal(printable("one\n\ttwo\r\n"), "one\n\ttwo\n");
  assert.equal(printable("naïve 漢字 🙂"), "naïve 漢字 🙂");
});

test("bytes in any pieces come out as they would in one, and never with a control", () => {
  const piece = fc.constantFrom(
    "a",
    "é",
    "🙂",
    "\r",
    "\n",
    ESC,
    "[",
    "2J",
    "]0;",
    "\u0007",
    "31m",
    "\u009B",
    "\\",
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), fc.array(fc.nat(8)), (parts, sizes) => {
      const bytes = Buffer.from(parts.join(""));
      const stream = createPrintableBytes();
      let shown = "";
      for (let at = 0, turn = 0; at < bytes.length; turn++) {
        const size = 1 + (sizes[turn] ?? 3);
        shown += stream.take(bytes.subarray(at, at + size));
        at += size;
      }
      shown += stream.end();

      // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
      assert.doesNotMatch(shown, /[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/);
    }),
    { seed: 7, numRuns: 2_000 },
  );
});

test("a sequence that is cut in two by the network does not get through in halves", () => {
  const stream = createPrintableBytes();

  const shown = [`log ${ESC}`, "[2", "J line\r", "\nnext", `${ESC}]0;evil`].map((text) =>
    stream.take(Buffer.from(text)),
  );

  assert.equal(shown.join("") + stream.end(), "log  line\nnext");
});
