import assert from "node:assert/strict";
import { test } from "node:test";
import { createApiDouble } from "../testing/api-double.ts";
import { createBench } from "../testing/run-cli.ts";
import { installView } from "../testing/views.ts";

test("a command is part of its pipeline's trace, unless the variable holds something else", async (t) => {
  const double = await createApiDouble(t, { getInstall: () => installView() });
  const bench = await createBench(t, double);
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

  for (const TRACEPARENT of [traceparent, "what\r\nx-other: is this", ""]) {
    const { exitCode } = await bench.run(["install", "show", "acme"], {
      environment: { TRACEPARENT },
    });
    assert.equal(exitCode, 0);
  }

  const sent = double.asked.map(({ request }) => request.traceparent);
  assert.deepEqual(sent, [traceparent, undefined, undefined]);
});
