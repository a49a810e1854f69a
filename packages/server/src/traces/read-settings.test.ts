import assert from "node:assert/strict";
import { test } from "node:test";
import { readTraceSettings } from "./read-settings.ts";

const BASE = "https://collector.example.com:4318/";

test("nothing is traced unless somebody names a collector", () => {
  assert.equal(readTraceSettings({}), undefined);
  const off = { OTEL_EXPORTER_OTLP_ENDPOINT: BASE, OTEL_SDK_DISABLED: "true" };
  assert.equal(readTraceSettings(off), undefined);
});

test("the endpoint is the base with the path of traces, or the one for traces as it is", () => {
  const common = readTraceSettings({ OTEL_EXPORTER_OTLP_ENDPOINT: BASE });
  const own = readTraceSettings({
    OTEL_EXPORTER_OTLP_ENDPOINT: BASE,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://127.0.0.1:1/elsewhere",
    OTEL_EXPORTER_OTLP_HEADERS: "x-team=a%20b, x-other=c",
    OTEL_SERVICE_NAME: "crm",
  });

  assert.equal(common?.endpoint, "https://collector.example.com:4318/v1/traces");
  assert.equal(own?.endpoint, "http://127.0.0.1:1/elsewhere");
  assert.deepEqual(own?.headers, { "x-team": "a b", "x-other": "c" });
  assert.equal(own?.serviceName, "crm");
});

test("a setting that cannot be followed is refused, without showing what may be a credential", () => {
  const wrong = [
    { OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: BASE, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: BASE, OTEL_EXPORTER_OTLP_HEADERS: "hidden" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: BASE, OTEL_EXPORTER_OTLP_HEADERS: "name=%hidden" },
  ];

  for (const environment of wrong) {
    assert.throws(
      () => readTraceSettings(environment),
      ({ message }: Error) => !message.includes("hidden"),
    );
  }
});
