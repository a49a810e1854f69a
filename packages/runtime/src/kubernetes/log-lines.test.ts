import assert from "node:assert/strict";
import { test } from "node:test";
import { logPieces } from "./log-lines.ts";

const at = (second: number) => `2026-01-02T03:04:0${second}.000000001Z`;
const LOG = `${at(1)} one\n${at(2)} \n${at(3)} a b\n${at(4)} end`;

async function read(chunks: readonly string[]) {
  const stream = (async function* () {
    for (const chunk of chunks) yield Buffer.from(chunk);
  })();
  let text = "";
  const lines: [string, number][] = [];
  for await (const piece of logPieces(stream)) {
    for (const line of piece.lines) lines.push([line.time, text.length + line.at]);
    text += piece.bytes.toString();
  }
  return { text, lines };
}

test("a log is the same however it is cut, and every line's first byte is known", async () => {
  const lines = [
    [at(1), 0],
    [at(2), 4],
    [at(3), 5],
    [at(4), 9],
  ];
  for (let cut = 0; cut <= LOG.length; cut++) {
    const chunks = [LOG.slice(0, cut), LOG.slice(cut)].filter(Boolean);
    assert.deepEqual(await read(chunks), { text: "one\n\na b\nend", lines }, `cut at ${cut}`);
  }
  assert.deepEqual(await read(LOG.split("")), { text: "one\n\na b\nend", lines });
});

test("what a kubelet says instead of a log is not taken for one", async () => {
  await assert.rejects(read(["unable to retrieve container logs for containerd://x"]), {
    code: "unavailable",
  });
  await assert.rejects(read(["x".repeat(100)]), { code: "unavailable" });
});
