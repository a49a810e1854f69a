import assert from "node:assert/strict";
import { appendFile, mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { followLog } from "./follow-log.ts";
import { instanceFiles } from "./instance.ts";

async function log(t: TestContext, older: string, current: string) {
  const directory = await mkdtemp(join(tmpdir(), "exclave-log-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const files = instanceFiles(directory);
  await writeFile(files.olderLog, older);
  await writeFile(files.log, current);
  return { directory, path: files.log };
}

test("the tail reaches back over a rotation", async (t) => {
  const { directory } = await log(t, "a\nb\n", "c\nd\n");
  const { signal } = new AbortController();

  const lines: string[] = [];
  for await (const line of followLog(directory, { tailLines: 3, follow: false, signal })) {
    lines.push(line);
  }

  assert.deepEqual(lines, ["b", "c", "d"]);
});

test("following resumes at the start of a log that was rotated meanwhile", async (t) => {
  const { directory, path } = await log(t, "", "a long first line\n");
  const controller = new AbortController();
  const seen: string[] = [];

  const following = followLog(directory, { tailLines: 1, follow: true, signal: controller.signal });
  for await (const line of following) {
    seen.push(line);
    if (seen.length === 1) {
      await truncate(path);
      await appendFile(path, "b\n");
    }
    if (seen.length === 2) controller.abort();
  }

  assert.deepEqual(seen, ["a long first line", "b"]);
});

test("a line is given once it is whole", async (t) => {
  const { directory, path } = await log(t, "", "start\n");
  const controller = new AbortController();
  const seen: string[] = [];

  const following = followLog(directory, { tailLines: 1, follow: true, signal: controller.signal });
  for await (const line of following) {
    seen.push(line);
    if (seen.length === 1) {
      await appendFile(path, "half");
      setTimeout(() => void appendFile(path, " whole\n"), 300);
    }
    if (seen.length === 2) controller.abort();
  }

  assert.deepEqual(seen, ["start", "half whole"]);
});
