// Reads what a job says: lines of JSON that mean something, and everything else, which is log. The
// log is text for people, with secrets taken out. The same bytes always give the same log, so after a
// crash of the agent it is made again from the first byte and nothing is lost or said twice.

import {
  type ArtifactLine,
  beginningOf,
  createLineSplitter,
  createLogBudget,
  createOutputBudget,
  createRedactor,
  createReport,
  cutText,
  type JobLine,
  type JobReport,
  LINE_BYTES_MAX,
  leavesOf,
  leftOutMessage,
  mayBeMessage,
  type OutputLine,
  parseJobLine,
  type ResultLine,
  type SplitLine,
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
  readonly report: JobReport | undefined;
  /** Why what it said cannot count: a message was over a limit, and its value is not known. */
  readonly refused: string | undefined;
}

export interface JobOutputOptions {
  readonly secrets: readonly string[];
  /** More log than this is left out, and the log says so. */
  readonly logBytesMax: number;
}

/** A result travels in one frame: a sentence in it may be long, a whole log has no place there. */
const RESULT_TEXT_MAX = 8 * 1024;

export function createJobOutput({ secrets, logBytesMax }: JobOutputOptions): JobOutputReader {
  const redact = createRedactor(secrets);
  const splitter = createLineSplitter(LINE_BYTES_MAX);
  const log = createLogBudget(logBytesMax);
  const budget = createOutputBudget();
  const outputs = new Map<string, OutputLine>();
  const artifacts: ArtifactLine[] = [];
  let result: ResultLine | undefined;
  const report = createReport(redact);
  let refused: string | undefined;

  return {
    read,
    end,
    get collected() {
      return { outputs, artifacts, result, report: report.report(), refused };
    },
  };

  function read(chunk: Uint8Array): string {
    let text = "";
    for (const line of splitter.read(chunk)) text += logged(textOf(line));
    return text;
  }

  function end(): string {
    const last = splitter.end();
    const rest = last ? logged(textOf(last)) : "";
    const gap = log.gap();
    return rest + (gap === undefined ? "" : `${gap}\n`);
  }

  function logged(text: string | undefined): string {
    if (text === undefined) return "";
    const line = log.within(text, Buffer.byteLength(text) + 1);
    return line === undefined ? "" : `${line}\n`;
  }

  /** What the log shows of a line, without secrets. */
  function textOf({ bytes, leftOutBytes }: SplitLine): string | undefined {
    const line = Buffer.from(bytes).toString("utf8").replace(/\r$/, "");
    if (leftOutBytes > 0) return textOfCut(line, bytes.length + leftOutBytes);
    const parsed = parseJobLine(line);
    if (!parsed) return redact(line);
    const because = budget.refuse(parsed, bytes.length);
    if (because !== undefined) return refuse(because);
    collect(parsed);
    const text = render(parsed);
    return text === undefined ? undefined : redact(text);
  }

  function textOfCut(line: string, sizeBytes: number): string {
    if (!mayBeMessage(line)) return cutText(redact(beginningOf(line, sizeBytes)));
    refused ??= `it said a message of ${sizeBytes} bytes, which may have ${LINE_BYTES_MAX}`;
    return leftOutMessage(sizeBytes);
  }

  function refuse(because: string): string {
    refused ??= because;
    return `failed: ${redact(because)}`;
  }

  function collect(line: JobLine): void {
    if (line.type === "output") {
      outputs.set(line.name, line);
      if (line.sensitive) redact.add(leavesOf(line.value).values);
    }
    report.add(line);
    if (line.type === "artifact") artifacts.push(line);
    if (line.type === "result") result = withoutSecrets(line);
  }

  function withoutSecrets(line: ResultLine): ResultLine {
    return JSON.parse(JSON.stringify(line), (_, value) =>
      typeof value === "string" ? redact(value).slice(0, RESULT_TEXT_MAX) : value,
    );
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
