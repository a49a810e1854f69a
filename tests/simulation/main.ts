// `npm run simulate -- --seeds N [--from S] [--seed S] [--verbose]`: many small worlds of production servers
// and agents in virtual time, or one of them again. `--from` begins at another seed than the first. `--points`:
// instead, every crash of a reference scenario, one by one.

import { parseArgs } from "node:util";
import { type CrashOptions, crashAt, crashPoints } from "./crash-points.ts";
import { simulate } from "./simulate.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "200" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    verbose: { type: "boolean", default: false },
    points: { type: "boolean", default: false },
  },
});

const first = whole(values.from, "--from");
const seeds =
  values.seed === undefined
    ? Array.from({ length: whole(values.seeds, "--seeds") }, (_, index) => first + index)
    : [whole(values.seed, "--seed")];

const unhandled: unknown[] = [];
process.on("unhandledRejection", (reason) => unhandled.push(reason));

if (values.points) process.exit(await strikeAll());

let failed = 0;
let jobs = 0;
const startedAt = performance.now();
const cpuAtStart = process.cpuUsage();
for (const seed of seeds) {
  const report = await simulate({ seed });
  jobs += report.jobs;
  if (values.verbose) console.log(report.trace.join("\n"));
  const violations = [
    ...report.violations,
    ...unhandled.splice(0).map((reason) => `an error nobody handles: ${String(reason)}`),
  ];
  if (violations.length === 0) continue;
  failed++;
  console.log(`seed ${seed} broke a promise:`);
  for (const violation of new Set(violations)) console.log(`  - ${violation}`);
  console.log(`  replay: npm run simulate -- --seed ${seed} --verbose`);
}
const seconds = (performance.now() - startedAt) / 1_000;
const { user, system } = process.cpuUsage(cpuAtStart);
const cpuSeconds = (user + system) / 1e6;
const paces = [
  `${(seeds.length / seconds).toFixed(1)} seeds/s`,
  `${(seeds.length / cpuSeconds).toFixed(1)} seeds per CPU second`,
];
console.log(`${seeds.length} seeds, ${failed} violations (${jobs} jobs, ${paces.join(", ")})`);
process.exitCode = failed > 0 ? 1 : 0;

async function strikeAll(): Promise<number> {
  const points = await crashPoints();
  let broken = 0;
  let lost = 0;
  for (const [index, name] of points.entries()) {
    await strike(index + 1, {});
    if (!name.startsWith("after") || !name.endsWith("agent runtime.start")) continue;
    lost++;
    await strike(index + 1, { losesRuntimes: true });
  }
  const also = `${lost} of them also with the runtime lost`;
  console.log(`${points.length} crash points (${also}), ${broken} violations`);
  return broken > 0 ? 1 : 0;

  async function strike(point: number, options: CrashOptions): Promise<void> {
    const { violations } = await crashAt(point, options);
    if (violations.length === 0) return;
    broken++;
    const what = options.losesRuntimes ? " with the runtime lost" : "";
    console.log(`crash point ${point}${what} broke a promise:`);
    for (const violation of new Set(violations)) console.log(`  - ${violation}`);
  }
}

function whole(text: string, option: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) {
    console.error(`${option} wants a whole number above zero, not ${text}`);
    process.exit(2);
  }
  return Number(text);
}
