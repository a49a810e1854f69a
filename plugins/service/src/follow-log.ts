// Gives a service's log line by line: its end, and on request what is added while one listens.

import { open, stat } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { instanceFiles, tailLog } from "./instance.ts";

const POLL_MS = 200;

export async function* followLog(
  directory: string,
  { tailLines, follow, signal }: { tailLines: number; follow: boolean; signal: AbortSignal },
): AsyncIterable<string> {
  const { log } = instanceFiles(directory);
  let offset = await sizeOf(log);
  yield* tailLog(directory, tailLines);

  if (!follow) return;
  let rest = "";
  while (!signal.aborted) {
    await sleep(POLL_MS, undefined, { signal }).catch(() => undefined);
    const size = await sizeOf(log);
    // A log that shrank was rotated: what is in it now is all new.
    if (size < offset) offset = 0;
    if (size === offset) continue;
    const lines = (rest + (await readFrom(log, offset, size))).split("\n");
    offset = size;
    rest = lines.pop() ?? "";
    yield* lines;
  }
}

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}

async function readFrom(path: string, from: number, to: number): Promise<string> {
  const handle = await open(path, "r");
  try {
    const buffer = Buffer.alloc(to - from);
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, from);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await handle.close();
  }
}
