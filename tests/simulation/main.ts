// `npm run simulate -- --seeds N [--seed S] [--verbose]`: many small worlds, or one of them again.

import { parseArgs } from "node:util";
import { simulate } from "./simulation.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "200" },
    seed: { type: "string" },
    verbose: { type: "boolean", default: false },
  },
});

const seeds =
  values.seed === undefined
    ? Array.from({ length: whole(values.seeds, "--seeds") }, (_, index) => index + 1)
    : [whole(values.seed, "--seed")];

let failed = 0;
let jobs = 0;
for (const seed of seeds) {
  const report = simulate({ seed });
  jobs += report.jobs;
  if (values.verbose) console.log(report.trace.join("\n"));
  if (report.violations.length === 0) continue;
  failed++;
  console.log(`seed ${seed} broke a promise:`);
  for (const violation of new Set(report.violations)) console.log(`  - ${violation}`);
  console.log(`  replay: npm run simulate -- --seed ${seed} --verbose`);
}
console.log(`${seeds.length} seeds, ${failed} violations (${jobs} jobs)`);
process.exitCode = failed > 0 ? 1 : 0;

function whole(text: string, option: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) {
    console.error(`${option} wants a whole number above zero, not ${text}`);
    process.exit(2);
  }
  return Number(text);
}
