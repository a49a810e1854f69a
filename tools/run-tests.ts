// Runs one of the test suites: `unit` (npm alone) or `e2e` (real processes and, where the machine has
// them, real tools). What a suite could not run is said plainly, with the reason.

import { execFileSync, spawn } from "node:child_process";
import { globSync } from "node:fs";
import { join } from "node:path";
import { provideTestTools } from "./test-tools/provide.ts";

const ROOT = join(import.meta.dirname, "..");

const SUITES = {
  unit: {
    files: [
      "{packages,plugins,sandboxes}/*/src/**/*.test.ts",
      "examples/**/*.test.ts",
      "tests/*.test.ts",
      "tools/**/*.test.ts",
      "tests/simulation/*.test.ts",
      "tests/tls/*.test.ts",
      "tests/mutations/*.test.ts",
      "tests/faults/*.test.ts",
      "tests/soak/*.test.ts",
    ],
    concurrency: 2,
  },
  e2e: {
    files: ["{packages,plugins,sandboxes}/*/src/**/*.e2e.ts", "tests/e2e/**/*.e2e.ts"],
    concurrency: 1,
  },
} as const;

const [suiteName = "unit", ...patterns] = process.argv.slice(2);
if (!(suiteName in SUITES)) {
  console.error(`there is no suite ${suiteName}; there are ${Object.keys(SUITES).join(" and ")}`);
  process.exit(2);
}
const suite = SUITES[suiteName as keyof typeof SUITES];

const files = suite.files
  .flatMap((pattern) =>
    globSync(pattern, { cwd: ROOT, exclude: (path) => path.includes("node_modules") }),
  )
  .filter((file) => patterns.length === 0 || patterns.some((pattern) => file.includes(pattern)))
  .sort();
if (files.length === 0) {
  console.error(`no test file of ${suiteName} matches ${patterns.join(" ")}`);
  process.exit(2);
}

if (suiteName === "e2e") {
  // Real processes run real images: those of this tree, as it is now.
  execFileSync(process.execPath, ["tools/build-images.ts", "--if-needed"], {
    cwd: ROOT,
    stdio: "inherit",
  });
}
const path =
  suiteName === "e2e"
    ? await provideTestTools((line) => console.log(line))
    : (process.env["PATH"] ?? "");

const child = spawn(
  process.execPath,
  [
    "--test",
    `--test-concurrency=${suite.concurrency}`,
    "--test-reporter=spec",
    "--test-reporter-destination=stdout",
    ...(process.env["EXCLAVE_TEST_SUMMARY"]
      ? [
          "--test-reporter=./tools/summary-reporter.ts",
          `--test-reporter-destination=${process.env["EXCLAVE_TEST_SUMMARY"]}`,
        ]
      : []),
    ...files,
  ],
  { cwd: ROOT, stdio: "inherit", env: { ...process.env, PATH: path } },
);
child.on("exit", (code, signal) => process.exit(signal ? 1 : (code ?? 1)));
