// Brings a job its files where it shares no disk with its agent: asked for once, with a token that says which job asks.
// An agent that is being restarted is waited for; one that refuses is not asked again.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { request } from "node:https";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure, JOB_ENVIRONMENT } from "@exclave/core";
import { z } from "zod";

export interface FetchFiles {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly jobDirectory: string;
  readonly signal: AbortSignal;
  readonly waitMs?: number;
}

const BYTES_MAX = 32 * 1024 * 1024;
const ANSWER_MS = 20_000;
const WAIT_MS = 120_000;
const RETRY_MS = 1_000;
const PLAIN = /^[A-Za-z0-9_][A-Za-z0-9._-]*(\/[A-Za-z0-9_][A-Za-z0-9._-]*)*$/;
const Answer = z.object({ files: z.record(z.string().regex(PLAIN), z.string()) });

/** Does nothing where the files are there already. */
export async function fetchFiles(options: FetchFiles): Promise<void> {
  const { environment, jobDirectory, signal, waitMs = WAIT_MS } = options;
  const url = environment[JOB_ENVIRONMENT.documentUrl];
  if (url === undefined) return;
  const tokenFile = environment[JOB_ENVIRONMENT.documentToken] ?? "";
  const ca = environment[JOB_ENVIRONMENT.documentCa];
  const token = (await readFile(tokenFile, "utf8")).trim();
  const until = performance.now() + waitMs;
  for (;;) {
    const { status, text } = await ask({ url, ca, token, signal });
    if (status === 200) return write(jobDirectory, text);
    if (status !== undefined && status !== 503) {
      throw new Failure("forbidden", `the agent refuses the job's files: ${text} (${status})`);
    }
    if (performance.now() > until) {
      throw new Failure("unavailable", `the agent does not give the job its files: ${text}`);
    }
    await sleep(RETRY_MS, undefined, { signal });
  }
}

interface Asked {
  readonly url: string;
  readonly ca: string | undefined;
  readonly token: string;
  readonly signal: AbortSignal;
}

/** Without a status where nobody answered; an answer that broke off was one, and is not to be had again. */
function ask({ url, ca, token, signal }: Asked): Promise<{ status?: number; text: string }> {
  const { promise, resolve } = Promise.withResolvers<{ status?: number; text: string }>();
  const sent = request(url, {
    headers: { authorization: `Bearer ${token}`, connection: "close" },
    agent: false,
    signal,
    ...(ca !== undefined && { ca }),
  });
  sent.setTimeout(ANSWER_MS, () => sent.destroy(new Error(`no answer within ${ANSWER_MS} ms`)));
  sent.once("error", (reason) => resolve({ text: reason.message }));
  sent.once("response", (answer) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const status = answer.statusCode ?? 0;
    answer.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= BYTES_MAX) {
        chunks.push(chunk);
      } else {
        resolve({ status: 502, text: `it is over ${BYTES_MAX} bytes` });
        answer.destroy();
      }
    });
    answer.once("error", (reason) => resolve({ status: 502, text: reason.message }));
    answer.once("end", () => resolve({ status, text: Buffer.concat(chunks).toString() }));
  });
  sent.end();
  return promise;
}

async function write(jobDirectory: string, text: string): Promise<void> {
  const read = Answer.safeParse(parsed(text));
  // The text holds secrets, so what the parser says of it stays unsaid.
  if (!read.success) throw new Failure("invalid", "what the agent gives is no set of files");
  await mkdir(jobDirectory, { recursive: true, mode: 0o700 });
  for (const [path, content] of Object.entries(read.data.files)) {
    const file = join(jobDirectory, path);
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    await writeFile(file, content, { mode: 0o600, flag: "wx" });
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
