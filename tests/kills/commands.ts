// Debug commands, one after another in each install, asked for as a person would: a call that fails is made again.
// Each leaves a line in a file when it runs, so that a second run shows, and a line in its log.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type Client,
  createClient,
  getJob,
  getJobLog,
  type JobView,
  runInInstall,
} from "@exclave/api";
import { lines, repeated, type World } from "../e2e/testing/harness.ts";

/** In the command line of every one of them. */
export const COMMAND_MARK = "ran-by-kills";

export interface Commands {
  /** Jobs that a call was answered with. */
  answered(): readonly string[];
  /** Asks for no more, and waits for those under way. */
  stop(): Promise<void>;
  /** What is not as it should be, in words. */
  wrong(): Promise<string[]>;
}

const OVER = ["succeeded", "failed", "cancelled", "unknown"];
const PATIENCE_MS = 20_000;
const SETTLED_WITHIN_MS = 60_000;

export function createCommands(world: World, installs: readonly string[]): Commands {
  const marks = new Map<string, string>();
  const file = join(world.place, COMMAND_MARK);
  const stopping = new AbortController();
  let asked = 0;
  const loops = installs.map(askAgainAndAgain);

  return {
    answered: () => [...marks.keys()],
    async stop() {
      stopping.abort();
      await Promise.all(loops);
    },
    wrong,
  };

  async function askAgainAndAgain(install: string): Promise<void> {
    while (!stopping.signal.aborted) {
      const mark = `${install}-${++asked}`;
      const script = `echo ${mark} >> ${file}; echo begins; sleep 1; echo ends ${mark}`;
      try {
        const { id } = await clientOf(world).call(runInInstall, {
          params: { install, component: "web" },
          body: { operation: "exec", command: ["sh", "-c", script] },
        });
        marks.set(id, mark);
        await until(async () => stopping.signal.aborted || (await isOver(id)), PATIENCE_MS);
      } catch {
        // The server, its database or the agent is away: asked again, with another mark.
        await sleep(200);
      }
    }
  }

  async function isOver(id: string): Promise<boolean> {
    const job = await view(id).catch(() => undefined);
    return job !== undefined && OVER.includes(job.state);
  }

  function view(id: string): Promise<JobView> {
    return clientOf(world).call(getJob, { params: { job: id } });
  }

  async function wrong(): Promise<string[]> {
    const found: string[] = [];
    const succeeded: [string, string][] = [];
    for (const [id, mark] of marks) {
      await until(() => isOver(id), SETTLED_WITHIN_MS);
      const job = await view(id).catch(() => undefined);
      if (job === undefined) found.push(`lost: ${id}`);
      else if (!OVER.includes(job.state)) found.push(`stuck: ${id} is ${job.state}`);
      // A command that was killed is a job that did what it should, and says so by its exit code.
      if (job?.state === "succeeded" && job.exitCode === 0) succeeded.push([id, mark]);
    }
    if (succeeded.length === 0) found.push("not one job succeeded");
    const ran = lines(existsSync(file) ? readFileSync(file, "utf8") : "");
    found.push(...repeated(ran).map((mark) => `ran twice: ${mark}`));
    for (const [id, mark] of succeeded) {
      if (!ran.includes(mark)) found.push(`succeeded without having run: ${id}`);
      const isWhole = async () => (await logOf(id)).includes(`ends ${mark}`);
      await until(isWhole, SETTLED_WITHIN_MS);
      if (await isWhole()) continue;
      const { logBytes, logComplete } = await view(id);
      const told = JSON.stringify({ logBytes, logComplete, log: await logOf(id) });
      found.push(`its log is not whole: ${id}: ${told}`);
    }
    return found;
  }

  async function logOf(id: string): Promise<string> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of clientOf(world).bytes(getJobLog, { params: { job: id } })) {
      chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString("utf8");
  }
}

function clientOf(world: World): Client {
  const url = /ready at (\S+)/.exec(world.upOutput())?.[1];
  if (url === undefined) throw new Error("nothing is up");
  const token = readFileSync(join(world.home, "server", "admin-token"), "utf8").trim();
  return createClient({ url, token });
}

async function until(isTrue: () => Promise<boolean>, limitMs: number): Promise<void> {
  const end = Date.now() + limitMs;
  while (Date.now() < end && !(await isTrue())) await sleep(150);
}
