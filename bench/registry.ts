// Our registry beside `distribution`: the same bytes in and out, over the same number of connections,
// by the same client (curl), in turns; the best of three counts. On a disk, because a push is over
// when its bytes are safe, and in memory as well, where that costs nothing and only programs are compared.

import { createHash, randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Bench, type Figure, round, say } from "./figure.ts";
import { findProgram, runProgram } from "./programs.ts";
import { type BenchRegistry, startDistribution, startOurs } from "./registries.ts";

const ROUNDS = 3;
const AT_ONCE = "6";
const DISK = join(import.meta.dirname, "../dist/bench");

interface Blob {
  readonly file: string;
  readonly digest: string;
}

export const REGISTRY_BENCHES: readonly Bench[] = [
  { name: "registry-10x50mb", run: (directory) => pushAndPull(directory, "10x50mb", 10, 50) },
  { name: "registry-200x1mb", run: (directory) => pushAndPull(directory, "200x1mb", 200, 1) },
];

type Direction = "push" | "pull";
type Seconds = Record<Direction, Record<"ours" | "distribution", number>>;

async function* pushAndPull(
  memory: string,
  shape: string,
  count: number,
  megabytes: number,
): AsyncIterable<Figure> {
  const curl = findProgram("curl");
  if (!curl) throw new Error("curl is not here");
  const load = {
    curl,
    shape,
    first: await makeBlobs(join(memory, "first"), count, megabytes),
    timed: await makeBlobs(join(memory, "timed"), count, megabytes),
  };
  await mkdir(DISK, { recursive: true });
  const disk = await mkdtemp(join(DISK, "registry-"));
  try {
    const onDisk = await measure(load, disk, "on disk");
    const inMemory = await measure(load, memory, "in memory");
    for (const direction of ["push", "pull"] as const) {
      const rate = (name: "ours" | "distribution") =>
        round((count * megabytes) / onDisk[direction][name], 0);
      const ratio = ratioOf(onDisk[direction]);
      yield {
        figure: `registry-${direction}-${shape}`,
        value: ratio,
        unit: "throughput, as a multiple of distribution's",
        beside: {
          goal: ">= 1",
          isMet: ratio >= 1,
          megabytesPerSecond: { ours: rate("ours"), distribution: rate("distribution") },
          inMemory: ratioOf(inMemory[direction]),
        },
      };
    }
  } finally {
    await rm(disk, { recursive: true, force: true });
  }
}

function ratioOf({ ours, distribution }: Seconds[Direction]): number {
  return round(distribution / ours);
}

interface Load {
  readonly curl: string;
  readonly shape: string;
  /** Pushed and pulled before the clock runs: servers are compared, and not how they start. */
  readonly first: readonly Blob[];
  readonly timed: readonly Blob[];
}

async function measure(load: Load, directory: string, where: string): Promise<Seconds> {
  const { curl, shape, first, timed } = load;
  const none = { ours: Infinity, distribution: Infinity };
  const best: Seconds = { push: { ...none }, pull: { ...none } };
  for (let turn = 0; turn < ROUNDS; turn++) {
    for (const [name, start] of [
      ["ours", startOurs],
      ["distribution", (path: string) => startDistribution(path)],
    ] as const) {
      await using registry = await start(directory);
      await push(curl, registry, first);
      await pull(curl, registry, first);
      for (const [direction, move] of [
        ["push", push],
        ["pull", pull],
      ] as const) {
        const seconds = await move(curl, registry, timed);
        say(`registry-${shape} ${where}: ${direction} ${name} ${seconds.toFixed(2)} s`);
        best[direction][name] = Math.min(best[direction][name], seconds);
      }
    }
  }
  return best;
}

async function makeBlobs(folder: string, count: number, megabytes: number): Promise<Blob[]> {
  await mkdir(folder, { recursive: true });
  const blobs: Blob[] = [];
  for (let n = 0; n < count; n++) {
    const bytes = randomBytes(megabytes * 1024 * 1024);
    const file = join(folder, String(n));
    await writeFile(file, bytes);
    blobs.push({ file, digest: `sha256:${createHash("sha256").update(bytes).digest("hex")}` });
  }
  return blobs;
}

/** Opening the uploads is not timed: it is the bytes that are compared. */
async function push(curl: string, { url }: BenchRegistry, blobs: readonly Blob[]): Promise<number> {
  const args: string[] = [];
  for (const { file, digest } of blobs) {
    const opened = await fetch(`${url}/v2/bench/blobs/uploads/`, { method: "POST" });
    await opened.arrayBuffer();
    const location = new URL(opened.headers.get("location") ?? "", url);
    location.searchParams.set("digest", digest);
    const body = ["-T", file, "-H", "content-type: application/octet-stream", "-H", "expect:"];
    if (args.length > 0) args.push("--next");
    args.push("-s", "-f", "-o", "/dev/null", ...body, location.href);
  }
  const { seconds } = await runProgram(curl, [...parallel(), ...args]);
  return seconds;
}

async function pull(curl: string, { url }: BenchRegistry, blobs: readonly Blob[]): Promise<number> {
  const args = blobs.flatMap(({ digest }) => [
    "-o",
    "/dev/null",
    `${url}/v2/bench/blobs/${digest}`,
  ]);
  const { seconds } = await runProgram(curl, ["-s", "-f", ...parallel(), ...args]);
  return seconds;
}

function parallel(): string[] {
  return ["--parallel", "--parallel-immediate", "--parallel-max", AT_ONCE];
}
