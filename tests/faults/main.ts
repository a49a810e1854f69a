// `npm run faults -- --agents 200 --minutes 5 --seed S`: a real server, many agents that run jobs with logs, and a
// proxy between them that treats every connection badly. In the end every log is byte for byte what its job wrote, and
// every result is on record once. `--seconds` instead of `--minutes` for a short form.

import { createHash } from "node:crypto";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createClient, getJob, getJobLog, listAudit } from "@exclave/api";
import {
  createFleet,
  createPeople,
  endProcess,
  type RunningFleet,
  type ServerProcess,
  seedFleet,
  startServerProcess,
  until,
} from "@exclave/server/testing/load";
import { startFaultProxy } from "./fault-proxy.ts";
import { createDice, rollFate } from "./faults.ts";
import { logBytesOf } from "./job-log.ts";

const PLACE = join(import.meta.dirname, "../../dist/faults");
/** More would be about the machine, and not about the faults. */
const JOBS_A_SECOND_PER_AGENT = 0.1;
const SETTLED_WITHIN_MS = 180_000;
const LIFE_MS_MAX = 6_000;
/** A job writes for about as long as a connection lives: many end in the midst of a log. */
const PIECES = 10;
const PIECE_EVERY_MS = 300;

const { values } = parseArgs({
  options: {
    agents: { type: "string", default: "200" },
    minutes: { type: "string", default: "5" },
    seconds: { type: "string" },
    seed: { type: "string", default: "1" },
  },
});
const agentCount = Number(values.agents);
const forMs = values.seconds ? Number(values.seconds) * 1_000 : Number(values.minutes) * 60_000;
const seed = Number(values.seed);

await mkdir(PLACE, { recursive: true });
const directory = await mkdtemp(join(PLACE, "run-"));
try {
  process.exitCode = (await run()) ? 0 : 1;
} finally {
  await rm(directory, { recursive: true, force: true });
}

async function run(): Promise<boolean> {
  const fleet = await seedFleet(join(directory, "server"), agentCount);
  const server = await startServerProcess(join(directory, "server"));
  const dice = createDice(seed);
  // Half-open for longer than a side waits for a word, where there is time for that.
  const fates = { lifeMsMax: LIFE_MS_MAX, blackholeMsMax: Math.min(40_000, forMs / 4) };
  const proxy = await startFaultProxy({
    targetPort: Number(new URL(server.url).port),
    fateOf: () => rollFate(dice, fates),
    dice: createDice(seed + 1),
  });
  const agents = createFleet(fleet, { logOf });
  const people = createPeople(server.url, fleet);
  try {
    for (const agent of agents.agents) agent.connect(`http://127.0.0.1:${proxy.port}`);
    const jobs = await askFor(forMs, agents, (install) => people.ask(install));
    proxy.heal();
    const isOver = () => jobs.every((job) => agents.ended.has(job) && agents.delivered.has(job));
    await until(isOver, "every job has ended and its log is there", SETTLED_WITHIN_MS).catch(
      () => undefined,
    );
    const wrongs = await judge(server, agents, jobs);
    const ends = Object.fromEntries(proxy.ends);
    const linksLost = agents.closes();
    const logBytes = jobs.reduce((sum, job) => sum + logBytesOf(job).length, 0);
    const summary = { seed, agents: agentCount, jobs: jobs.length, logBytes, linksLost, ends };
    console.log(JSON.stringify({ ...summary, wrong: wrongs.length }));
    for (const wrong of wrongs.slice(0, 20)) console.error(wrong);
    return wrongs.length === 0 && jobs.length > 0 && linksLost > 0;
  } finally {
    agents.stop();
    people.close();
    await proxy.close();
    await endProcess(server.child, "SIGTERM");
  }
}

/** Evenly, at whatever agent's turn it is. */
async function askFor(
  ms: number,
  agents: RunningFleet,
  ask: (install: string) => Promise<string>,
): Promise<string[]> {
  const count = Math.max(1, Math.round((ms / 1_000) * agentCount * JOBS_A_SECOND_PER_AGENT));
  const began = performance.now();
  const asked = Array.from({ length: count }, async (_, n) => {
    const due = began + (n * ms) / count;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
    // One whose agent is offline at the moment has no job: the server says so.
    return ask(agents.agents[(n * 7_919) % agentCount]!.install).catch(() => undefined);
  });
  const jobs = (await Promise.all(asked)).filter((job) => job !== undefined);
  const restMs = Math.max(0, began + ms - performance.now());
  await new Promise((resolve) => setTimeout(resolve, restMs));
  return jobs;
}

async function judge(
  { url, token }: ServerProcess,
  agents: RunningFleet,
  jobs: readonly string[],
): Promise<string[]> {
  const client = createClient({ url, token });
  const ends = await endsOnRecord(client);
  const wrongs: string[] = [];
  for (const job of jobs) {
    const { state, attempt } = await client.call(getJob, { params: { job } });
    const chunks: Uint8Array[] = [];
    for await (const chunk of client.bytes(getJobLog, { params: { job } })) chunks.push(chunk);
    const isSame = sha256(Buffer.concat(chunks)) === sha256(logBytesOf(job));
    const isTold = agents.ended.has(job);
    if (state !== "succeeded") wrongs.push(`${job} is ${state}`);
    if (attempt !== 1) wrongs.push(`${job} is at attempt ${attempt}`);
    if (ends.get(job) !== 1) wrongs.push(`${job} ended ${ends.get(job) ?? 0} times on record`);
    if (!isSame) wrongs.push(`the log of ${job} is not what it wrote`);
    if (!isTold) wrongs.push(`the end of ${job} was not acknowledged`);
  }
  return wrongs;
}

async function endsOnRecord(client: ReturnType<typeof createClient>) {
  const ends = new Map<string, number>();
  let after = "0";
  for (let next: string | null = after; next !== null; ) {
    const page = await client.call(listAudit, { query: { after } });
    for (const { action, subject } of page.items) {
      if (action === "job.ended") ends.set(subject, (ends.get(subject) ?? 0) + 1);
    }
    next = page.next;
    after = next ?? after;
  }
  return ends;
}

/** In a few pieces with time between them, so that a connection ends in the midst of it. */
async function* logOf(job: string): AsyncIterable<Buffer> {
  const content = logBytesOf(job);
  const size = Math.ceil(content.length / PIECES);
  for (let from = 0; from < content.length; from += size) {
    yield content.subarray(from, from + size);
    await new Promise((resolve) => setTimeout(resolve, PIECE_EVERY_MS));
  }
}

function sha256(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}
