// Spans in the JSON form of OTLP, which every collector takes over HTTP.

import type { Span } from "./spans.ts";

export interface OtlpResource {
  readonly serviceName: string;
  readonly serviceVersion: string;
}

const KINDS = { internal: 1, server: 2, consumer: 5 } as const satisfies Record<
  Span["kind"],
  number
>;
const STATUS_ERROR = 2;
const TEXT_MAX = 1_000;

export function otlpTraces(spans: readonly Span[], resource: OtlpResource): object {
  const { serviceName, serviceVersion } = resource;
  return {
    resourceSpans: [
      {
        resource: {
          attributes: attributesOf({
            "service.name": serviceName,
            "service.version": serviceVersion,
          }),
        },
        scopeSpans: [{ scope: { name: "exclave" }, spans: spans.map(written) }],
      },
    ],
  };
}

function written(span: Span): object {
  const { traceId, spanId, parentSpanId, name, kind, startedAtMs, endedAtMs, error } = span;
  return {
    traceId,
    spanId,
    ...(parentSpanId !== undefined && { parentSpanId }),
    name: name.slice(0, TEXT_MAX),
    kind: KINDS[kind],
    startTimeUnixNano: nanoseconds(startedAtMs),
    endTimeUnixNano: nanoseconds(endedAtMs),
    attributes: attributesOf(span.attributes),
    ...(error !== undefined && {
      status: { code: STATUS_ERROR, message: error.slice(0, TEXT_MAX) },
    }),
  };
}

/** A text: nanoseconds since 1970 are beyond what a number holds exactly. */
function nanoseconds(ms: number): string {
  return String(BigInt(Math.round(ms * 1_000)) * 1_000n);
}

function attributesOf(attributes: Span["attributes"]): object[] {
  return Object.entries(attributes).map(([key, value]) => ({
    key,
    value:
      typeof value === "number"
        ? { intValue: String(value) }
        : { stringValue: value.slice(0, TEXT_MAX) },
  }));
}
