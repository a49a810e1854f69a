// The agent's own log: one JSON object a line on stderr, for whoever runs the agent.

export type LogLevel = "debug" | "info" | "warn" | "error";

export interface Log {
  debug(message: string, details?: Readonly<Record<string, unknown>>): void;
  info(message: string, details?: Readonly<Record<string, unknown>>): void;
  warn(message: string, details?: Readonly<Record<string, unknown>>): void;
  error(message: string, details?: Readonly<Record<string, unknown>>): void;
}

const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];

export interface LogOptions {
  readonly level: LogLevel;
  readonly write: (line: string) => void;
  readonly now: () => number;
}

export function createLog({ level, write, now }: LogOptions): Log {
  const say =
    (of: LogLevel) =>
    (message: string, details: Readonly<Record<string, unknown>> = {}) => {
      if (LEVELS.indexOf(of) < LEVELS.indexOf(level)) return;
      const at = new Date(now()).toISOString();
      write(`${JSON.stringify({ at, level: of, message, ...plain(details) })}\n`);
    };
  return { debug: say("debug"), info: say("info"), warn: say("warn"), error: say("error") };
}

export function isLogLevel(text: string): text is LogLevel {
  return LEVELS.some((level) => level === text);
}

function plain(details: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const entries = Object.entries(details).map(([key, value]) => [key, readable(value)]);
  return Object.fromEntries(entries);
}

function readable(value: unknown): unknown {
  if (!(value instanceof Error)) return value;
  const cause = value.cause instanceof Error ? ` (${value.cause.message})` : "";
  return value.message + cause;
}
