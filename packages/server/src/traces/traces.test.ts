import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { deployedWorld } from "../testing/deployed-world.ts";
import { until } from "../testing/test-server.ts";

interface Received {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
}

/** A collector that keeps what it is sent. */
async function collector(t: TestContext) {
  const spans: Received[] = [];
  const server = createServer((request, response) => {
    void keep(request).finally(() => response.end("{}"));
  });
  async function keep(request: IncomingMessage): Promise<void> {
    const { resourceSpans } = (await json(request)) as {
      resourceSpans: { scopeSpans: { spans: Received[] }[] }[];
    };
    spans.push(...resourceSpans.flatMap((one) => one.scopeSpans.flatMap((of) => of.spans)));
  }
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`;
  return { spans, settings: { endpoint, headers: {}, serviceName: "exclave-server" } };
}

test("a request, the jobs it asked for and their runs are one trace, the caller's", async (t) => {
  const { spans, settings } = await collector(t);
  const { server } = await deployedWorld(t, { traces: settings });
  const traceId = "0af7651916cd43dd8448eb211c80319c";
  const spanId = "b7ad6b7169203331";

  const response = await fetch(`${server.url}/v1/installs/acme/deploy`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${server.token}`,
      "content-type": "application/json",
      traceparent: `00-${traceId}-${spanId}-01`,
    },
    body: JSON.stringify({ components: ["api"] }),
  });
  assert.ok(response.ok, await response.text());

  const own = () => spans.filter((span) => span.traceId === traceId);
  const named = (name: string) => own().find((span) => span.name === name);
  await until(
    async () => named("run"),
    (run) => run !== undefined,
    "the job's run is exported",
  );
  const request = named("deployInstall");
  assert.equal(request?.parentSpanId, spanId);
  const job = named("apply api") ?? named("plan api");
  assert.equal(job?.parentSpanId, request?.spanId);
  assert.ok(own().some((span) => span.name === "run" && span.parentSpanId === job?.spanId));
  // What went before has traces of its own.
  assert.ok(spans.some((span) => span.name.startsWith("build") && span.traceId !== traceId));
});
