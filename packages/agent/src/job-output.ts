// Reads what a job says: lines of JSON that mean something, and everything else, which is log. The
// log is text for people, with secrets taken out. The same bytes always give the same log, so after a
// crash of the agent it is made again from the first byte and nothing is lost or said twice.

import {
  type ArtifactLine,
  createRedactor,
  type JobLine,
  type OutputLine,
  parseJobLine,
  type ResultLine,
  unreachable,
} from "@exclave/core";

export interface JobOutputReader {
  /** Takes output as it comes, gives the log text it makes. */
  read(chunk: Uint8Array): string;
  /** Log text of what is left when no more comes. */
  end(): string;
  readonly collected: Collected;
}

export interface Collected {
  readonly outputs: ReadonlyMap<string, OutputLine>;
  readonly artifacts: readonly ArtifactLine[];
  readonly result: ResultLine | undefined;
}

export interface JobOutputOptions {
  readonly secrets: readonly string[];
  /** More log than this is left out, and the log says so. */
  readonly logBytesMax: number;
}

/** A longer line is cut: no program that ends its lines writes one. */
const LINE_BYTES_MAX = 4 * 1024 * 1024;
/** A result travels in one frame: a sentence in it may be long, a whole log has no place there. */
const RESULT_TEXT_MAX = 8 * 1024;
const NEWLINE = 10;

export function createJobOutput({ secrets, logBytesMax }: JobOutputOptions): JobOutputReader {
  const redact = createRedactor(secrets);
  const outputs = new Map<string, OutputLine>();
  const artifacts: ArtifactLine[] = [];
  let result: ResultLine | undefined;
  let pending: Uint8Array[] = [];
  let pendingBytes = 0;
  let keptBytes = 0;
  let leftOutBytes = 0;

  return {
    read,
    end,
    get collected() {
      return { outputs, artifacts, result };
    },
  };

  function read(chunk: Uint8Array): string {
    let text = "";
    let start = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, start)) {
      hold(chunk.subarray(start, at));
      text += takeLine();
      start = at + 1;
    }
    hold(chunk.subarray(start));
    while (pendingBytes >= LINE_BYTES_MAX) text += takeLine();
    return text;
  }

  function end(): string {
    const rest = pendingBytes > 0 ? takeLine() : "";
    const note = leftOutBytes > 0 ? `[${leftOutBytes} bytes of log were left out]\n` : "";
    return rest + note;
  }

  function hold(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    // A copy: whoever reads files may use one buffer again and again.
    pending.push(bytes.slice());
    pendingBytes += bytes.length;
  }

  function takeLine(): string {
    const line = Buffer.concat(pending).toString("utf8").replace(/\r$/, "");
    pending = [];
    pendingBytes = 0;
    const parsed = parseJobLine(line);
    if (parsed) collect(parsed);
    const text = parsed ? render(parsed) : line;
    return text === undefined ? "" : within(redact(text));
  }

  function collect(line: JobLine): void {
    if (line.type === "output") outputs.set(line.name, line);
    if (line.type === "artifact") artifacts.push(line);
    if (line.type === "result") result = withoutSecrets(line);
  }

  function withoutSecrets(line: ResultLine): ResultLine {
    return JSON.parse(JSON.stringify(line), (_, value) =>
      typeof value === "string" ? redact(value).slice(0, RESULT_TEXT_MAX) : value,
    );
  }

  function within(line: string): string {
    const bytes = Buffer.byteLength(line) + 1;
    if (leftOutBytes > 0 || keptBytes + bytes > logBytesMax) {
      const isFirst = leftOutBytes === 0;
      leftOutBytes += bytes;
      return isFirst ? `[the log is over its limit of ${logBytesMax} bytes and ends here]\n` : "";
    }
    keptBytes += bytes;
    return `${line}\n`;
  }
}

/** A line for people; nothing where the job's state says it all. */
function render(line: JobLine): string | undefined {
  switch (line.type) {
    case "log":
      return line.level === "info" ? line.message : `${line.level}: ${line.message}`;
    case "progress": {
      const { message, done, total } = line;
      return done === undefined ? message : `${message} (${done}${total ? ` of ${total}` : ""})`;
    }
    case "resource":
      return `${line.action} ${line.kind} ${line.name}`;
    case "output":
      return `output ${line.name} = ${line.sensitive ? "(sensitive)" : JSON.stringify(line.value)}`;
    case "artifact":
      return `artifact ${line.name}: ${line.repository}@${line.digest}`;
    case "result":
      return renderResult(line);
    default:
      return unreachable(line);
  }
}

function renderResult({ ok, failure, health, because, plan }: ResultLine): string | undefined {
  if (!ok) return `failed: ${failure?.message ?? "no reason was given"}`;
  if (plan) return `plan: ${plan.summary}`;
  if (health) return because ? `${health}: ${because}` : health;
  // What exec and logs print is theirs to the last byte.
  return undefined;
}
