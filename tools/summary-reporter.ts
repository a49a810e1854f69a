// A reporter for `node --test` that leaves one line per run: how many tests passed, failed, were
// skipped, the reason of every skip and what every failed test said. `.ci/run` adds these lines up.

import { relative } from "node:path";
import type { TestEvent } from "node:test/reporters";

const MAX_REASON = 2_000;

type Failure = Extract<TestEvent, { type: "test:fail" }>["data"];

export default async function* summary(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  let passed = 0;
  let failed = 0;
  const skipped: string[] = [];
  const failures: string[] = [];
  for await (const event of source) {
    if (event.type !== "test:pass" && event.type !== "test:fail") continue;
    if (event.data.details.type === "suite") continue;
    if (event.data.skip !== undefined) skipped.push(`${event.data.name}: ${event.data.skip}`);
    else if (event.type === "test:pass") passed++;
    else {
      failed++;
      failures.push(describe(event.data));
    }
  }
  yield `${JSON.stringify({ passed, failed, skipped, failures })}\n`;
}

function describe({ name, file, line, details }: Failure): string {
  const where = file === undefined ? "" : ` (${relative(process.cwd(), file)}:${line ?? 0})`;
  const { cause, message } = details.error;
  const reason = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause ?? message);
  return `${name}${where}\n${reason.slice(0, MAX_REASON)}`;
}
