// What every command is handed: the invocation it may touch, and the few things all of them do.

import type { Readable } from "node:stream";
import { type Client, createClient } from "@exclave/api";
import { INSECURE_HTTP_VARIABLE, refusePlainHttp, wantsInsecureHttp } from "@exclave/core";
import {
  certificateProblem,
  createServerFetch,
  doorFailure,
  proxyIn,
  type ServerDoor,
} from "@exclave/machine";
import type { Command } from "commander";
import { z } from "zod";
import {
  type ConnectionWish,
  decideTarget,
  keepLearned,
  readCa,
  readToken,
  readUpRecord,
  type Target,
} from "../connection/connection.ts";
import { type Home, homeOf } from "../connection/home.ts";
import { readSettings } from "../connection/settings.ts";
import { createDisplay, type Display } from "../output/display.ts";
import { type Answer, FORMATS, type Format, render } from "../output/output.ts";
import { createPrintableBytes, printable } from "../output/printable.ts";

/** One run of the command with what it was given: streams, signals, environment. Made in main.ts and by tests. */
export interface Invocation {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly directory: string;
  readonly stdin: Readable;
  readonly stdout: Screen;
  readonly stderr: Screen;
  /** Fires at the first Ctrl-C or SIGTERM. */
  readonly signal: AbortSignal;
  /** Fires at the second: whatever is left is to end at once. */
  readonly hurry: AbortSignal;
  readonly now: () => number;
}

export interface Screen {
  write(text: string | Uint8Array): unknown;
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
}

const GlobalOptions = z.object({
  output: z.enum(FORMATS).default("table"),
  context: z.string().optional(),
  server: z.string().optional(),
  tokenFile: z.string().optional(),
  caFile: z.string().optional(),
  insecureHttp: z.boolean().default(false),
  color: z.boolean().default(true),
  quiet: z.boolean().default(false),
  /** Of commands that write logs. */
  raw: z.boolean().default(false),
});

/** An invocation as the global options of its command line want it. */
export interface Cli {
  readonly invocation: Invocation;
  readonly home: Home;
  readonly format: Format;
  readonly paint: Paint;
  /** The answer, on stdout, in the format asked for. */
  print(answer: Answer): void;
  /** A remark for people, on stderr. */
  say(line: string): void;
  /** Bytes of a log, on stdout: as they are, but for a terminal without control sequences. */
  writeLog(chunk: Uint8Array): void;
  display(): Display;
  target(): Promise<Target>;
  connect(): Promise<Client>;
}

export function createCli(invocation: Invocation, command: Command): Cli {
  const options = GlobalOptions.parse(command.optsWithGlobals());
  const { environment, stdout, stderr } = invocation;
  const home = homeOf(environment);
  const wish: ConnectionWish = { ...options, environment };
  const log = stdout.isTTY === true && !options.raw ? createPrintableBytes() : undefined;
  const hasColour = options.color && !environment.NO_COLOR && stdout.isTTY === true;

  const cli: Cli = {
    invocation,
    home,
    format: options.output,
    paint: hasColour ? colours : plain,
    print: (answer) => void stdout.write(forScreen(stdout, render(answer, options.output))),
    say: (line) => void (options.quiet || stderr.write(`${forScreen(stderr, line)}\n`)),
    writeLog: (chunk) => void stdout.write(log ? log.take(chunk) : chunk),
    display: () =>
      createDisplay({
        write: (text) => void stderr.write(text),
        clean: (line) => forScreen(stderr, line),
        isLive: stderr.isTTY === true && environment.TERM !== "dumb" && !environment.CI,
        isQuiet: options.quiet,
        columns: () => stderr.columns || 80,
        rows: () => stderr.rows || 24,
      }),
    async target() {
      const [settings, up] = await Promise.all([readSettings(home), readUpRecord(home)]);
      return decideTarget(wish, { settings, up, home });
    },
    async connect() {
      const target = await cli.target();
      const isInsecure = wantsInsecureHttp(environment[INSECURE_HTTP_VARIABLE]);
      refusePlainHttp(target.url, options.insecureHttp || isInsecure);
      const token = await readToken(target);
      const ca = await readCa(target);
      return connectTo(target.url, {
        token,
        ca,
        onPresented: (chain) => keepLearned(home, target, { pinned: ca, chain }),
        proxy: proxyIn(environment),
        traceparent: traceparentIn(environment),
      });
    },
  };
  return cli;
}

export function connectTo(
  url: string,
  {
    token,
    traceparent,
    ...door
  }: ServerDoor & { readonly token: string | undefined; readonly traceparent?: string | undefined },
): Client {
  const ask = createServerFetch(door);
  return createClient({
    url,
    ...(token === undefined ? {} : { token }),
    traceparent,
    fetch: async (target, init) => {
      try {
        return await ask(target, init);
      } catch (reason) {
        if (certificateProblem(reason) === undefined) throw reason;
        throw doorFailure(url, reason);
      }
    },
  });
}

/** Of the pipeline that runs this command; whatever else the variable holds is nobody's trace. */
function traceparentIn({ TRACEPARENT }: Invocation["environment"]): string | undefined {
  return /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/.test(TRACEPARENT ?? "")
    ? TRACEPARENT
    : undefined;
}

/** Names, reasons and errors come from others: on a terminal they bring no control sequences. */
export function forScreen({ isTTY }: Screen, text: string): string {
  return isTTY === true ? printable(text) : text;
}

export type Tone = "good" | "busy" | "bad" | "faint" | "strong";
export type Paint = (tone: Tone, text: string) => string;

const CODES: Record<Tone, string> = { good: "32", busy: "33", bad: "31", faint: "2", strong: "1" };
const colours: Paint = (tone, text) => `\u001B[${CODES[tone]}m${text}\u001B[0m`;
const plain: Paint = (_, text) => text;

/** The tone of a state or health, the same wherever one is shown. */
export function toneOf(word: string): Tone {
  if (/^(healthy|succeeded|deployed|ready|settled|online)$/.test(word)) return "good";
  if (/^(failed|rejected|missing|degraded|offline|unknown)$/.test(word)) return "bad";
  if (/^(cancelled|removed|destroyed|never)$/.test(word)) return "faint";
  return "busy";
}

/** Wraps what a command does: options are read by their schema, arguments come as written. */
// Commander hands over whatever the command declared: the parameter types are the declaration.
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters
export function handler<Options extends z.ZodObject, Args extends unknown[]>(
  invocation: Invocation,
  options: Options,
  run: (given: { cli: Cli; options: z.output<Options> }, ...args: Args) => Promise<void>,
): (...given: unknown[]) => Promise<void> {
  return async (...given) => {
    const command = given.at(-1) as Command;
    const args = given.slice(0, -2) as Args;
    await run(
      { cli: createCli(invocation, command), options: options.parse(command.optsWithGlobals()) },
      ...args,
    );
  };
}
