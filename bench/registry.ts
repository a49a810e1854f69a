// Our registry beside `distribution`: the same bytes in and out, over the same number of connections,
// by the same client (curl), in turns; the best of three counts.

import { createHash, randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Bench, type Figure, round, say } from "./figure.ts";
import { findProgram, runProgram } from "./programs.ts";
import { type BenchRegistry, startDistribution, startOurs } from "./registries.ts";

const ROUNDS = 3;
const AT_ONCE = "6";

interface Blob {
  readonly file: string;
  readonly digest: string;
}

export const REGISTRY_BENCHES: readonly Bench[] = [
  { name: "registry-10x50mb", run: (directory) => pushAndPull(directory, "10x50mb", 10, 50) },
  { name: "registry-200x1mb", run: (directory) => pushAndPull(directory, "200x1mb", 200, 1) },
];

async function* pushAndPull(
  directory: string,
  shape: string,
  count: number,
  megabytes: number,
): AsyncIterable<Figure> {
  const curl = findProgram("curl");
  if (!curl) throw new Error("curl is not here");
  const blobs = await makeBlobs(directory, count, megabytes);
  const best: Record<string, number> = {};
  const keep = (key: string, seconds: number) => {
    say(`registry-${shape} ${key} ${seconds.toFixed(2)} s`);
    best[key] = Math.min(best[key] ?? Infinity, seconds);
  };
  for (let turn = 0; turn < ROUNDS; turn++) {
    for (const [name, start] of [
      ["ours", startOurs],
      ["distribution", (path: string) => startDistribution(path)],
    ] as const) {
      await using registry = await start(directory);
      keep(`push ${name}`, await push(curl, registry, blobs));
      keep(`pull ${name}`, await pull(curl, registry, blobs));
    }
  }
  for (const direction of ["push", "pull"]) {
    const seconds = (name: string) => best[`${direction} ${name}`] ?? Number.NaN;
    const rate = (name: string) => round((count * megabytes) / seconds(name), 0);
    const ratio = round(seconds("distribution") / seconds("ours"));
    yield {
      figure: `registry-${direction}-${shape}`,
      value: ratio,
      unit: "throughput, as a multiple of distribution's",
      beside: {
        goal: ">= 1",
        isMet: ratio >= 1,
        megabytesPerSecond: { ours: rate("ours"), distribution: rate("distribution") },
      },
    };
  }
}

async function makeBlobs(directory: string, count: number, megabytes: number): Promise<Blob[]> {
  const folder = join(directory, "blobs");
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
