// `npm run bench -- NAME…` prints one line of JSON per figure; `all` runs every one there is, and
// with `--record` the README keeps what came out. `NAME=SIZE` runs one at another size.

import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { COPY_BENCHES } from "./copy.ts";
import { type Bench, type Figure, printFigure, say } from "./figure.ts";
import { FLOOD_BENCHES } from "./flood.ts";
import { AGENTS_BENCHES } from "./load/agents.ts";
import { DISPATCH_BENCHES } from "./load/dispatch.ts";
import { DRAIN_BENCHES } from "./load/drain.ts";
import { HERD_BENCHES } from "./load/herd.ts";
import { LOGS_BENCHES } from "./load/logs.ts";
import { OWN_INSTALL_BENCHES } from "./load/own-install.ts";
import { PLANNER_BENCHES } from "./load/planner-scale.ts";
import { PODMAN_BENCHES } from "./podman.ts";
import { recordFigures } from "./record.ts";
import { REGISTRY_BENCHES } from "./registry.ts";

const BENCHES: readonly Bench[] = [
  ...COPY_BENCHES,
  ...FLOOD_BENCHES,
  ...REGISTRY_BENCHES,
  ...DISPATCH_BENCHES,
  ...HERD_BENCHES,
  ...AGENTS_BENCHES,
  ...PLANNER_BENCHES,
  ...DRAIN_BENCHES,
  ...LOGS_BENCHES,
  ...OWN_INSTALL_BENCHES,
  ...PODMAN_BENCHES,
];

const isRecorded = process.argv.includes("--record");
const wanted = process.argv.slice(2).filter((argument) => argument !== "--record");
const sizes = new Map(
  wanted.map((argument) => {
    const [name = "", size] = argument.split("=");
    return [name, size === undefined ? undefined : Number(size)] as const;
  }),
);
const chosen = sizes.has("all") ? BENCHES : BENCHES.filter(({ name }) => sizes.has(name));
const isUnknown = [...sizes].some(
  ([name, size]) =>
    (name !== "all" && !BENCHES.some((bench) => bench.name === name)) ||
    (size !== undefined && !(Number.isInteger(size) && size > 0)),
);
if (chosen.length === 0 || isUnknown) {
  say(`give one or more of: all, ${BENCHES.map(({ name }) => name).join(", ")}; NAME=SIZE`);
  process.exit(2);
}

const figures: Figure[] = [];
for (const bench of chosen) {
  // In memory where the system has such a place, so that programs are measured and not a disk.
  const parent = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
  const directory = await mkdtemp(join(parent, "exclave-bench-"));
  try {
    for await (const figure of bench.run(directory, sizes.get(bench.name))) {
      printFigure(figure);
      figures.push(figure);
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
if (isRecorded) await recordFigures(figures, `npm run bench -- ${wanted.join(" ")}`);
