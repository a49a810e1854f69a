// A directory that goes when the test ends.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

export async function temporaryDirectory(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "exclave-machine-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  return directory;
}
