// A reporter for `node --test` that leaves one line per run: how many tests passed, failed, were
// skipped, and the reason of every skip. `.ci/run` adds these lines up.

import type { TestEvent } from "node:test/reporters";

export default async function* summary(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  let passed = 0;
  let failed = 0;
  const skipped: string[] = [];
  for await (const event of source) {
    if (event.type !== "test:pass" && event.type !== "test:fail") continue;
    if (event.data.details.type === "suite") continue;
    if (event.data.skip !== undefined) skipped.push(`${event.data.name}: ${event.data.skip}`);
    else if (event.type === "test:pass") passed++;
    else failed++;
  }
  yield `${JSON.stringify({ passed, failed, skipped })}\n`;
}
