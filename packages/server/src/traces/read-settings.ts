// Where spans go, by the environment variables that every OpenTelemetry program reads.

import { Failure } from "@exclave/core";

export interface TraceSettings {
  readonly endpoint: string;
  /** They may hold a credential: never logged. */
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Undefined where nobody asked for traces. */
export function readTraceSettings(environment: Environment): TraceSettings | undefined {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: base, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: own } =
    environment;
  const endpoint = own || (base && `${base.replace(/\/+$/, "")}/v1/traces`);
  if (!endpoint || environment["OTEL_SDK_DISABLED"] === "true") return undefined;
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw new Failure("invalid", "the endpoint for traces is not an http or https URL");
  }
  const protocol =
    environment["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] ?? environment["OTEL_EXPORTER_OTLP_PROTOCOL"];
  if (protocol && protocol !== "http/json") {
    const message = `traces are sent as http/json; OTEL_EXPORTER_OTLP_PROTOCOL is ${protocol}`;
    throw new Failure("invalid", message);
  }
  const headers =
    environment["OTEL_EXPORTER_OTLP_TRACES_HEADERS"] ?? environment["OTEL_EXPORTER_OTLP_HEADERS"];
  return {
    endpoint: url.href,
    headers: readHeaders(headers ?? ""),
    serviceName: environment["OTEL_SERVICE_NAME"] || "exclave-server",
  };
}

/** `name=value,name=value`, values percent-encoded. */
function readHeaders(text: string): Record<string, string> {
  const pairs = text.split(",").filter((pair) => pair.trim() !== "");
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      try {
        if (at < 1) throw new SyntaxError("no name");
        return [pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim())];
      } catch (cause) {
        // Not the text itself: it may hold a credential.
        const message = "OTEL_EXPORTER_OTLP_HEADERS wants name=value pairs with commas between";
        throw new Failure("invalid", message, { cause });
      }
    }),
  );
}
