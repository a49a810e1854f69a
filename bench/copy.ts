// Cold and warm copies between two `distribution` registries, beside skopeo, crane and oras. The
// destination is new and empty for each run; tools take turns; the best of three counts.

import { readFile } from "node:fs/promises";
import { createRegistryClient } from "@exclave/oci";
import { type CopyTool, ourCopyTool, peerCopyTools } from "./copy-tools.ts";
import { type Bench, type Figure, round, say } from "./figure.ts";
import { pushImage } from "./images.ts";
import { type Run, runProgram } from "./programs.ts";
import { type Certificate, makeCertificate, startDistribution } from "./registries.ts";

const ROUNDS = 3;
const RSS_MAX_MB = 150;

const SHAPES = {
  "10x50mb": { layers: 10, megabytes: 50 },
  "200x1mb": { layers: 200, megabytes: 1 },
  "1x1gb": { layers: 1, megabytes: 1024 },
} as const;
type ShapeName = keyof typeof SHAPES;

export const COPY_BENCHES: readonly Bench[] = [
  ...(Object.keys(SHAPES) as ShapeName[]).flatMap((shape) => [
    coldCopy(shape, "http"),
    coldCopy(shape, "tls"),
  ]),
  { name: "copy-warm", run: warmCopy },
];

function coldCopy(shape: ShapeName, transport: "http" | "tls"): Bench {
  const name = transport === "tls" ? `copy-${shape}-tls` : `copy-${shape}`;
  const goal = transport === "tls" ? 1.2 : 1;
  return {
    name,
    async *run(directory) {
      const certificate = transport === "tls" ? await makeCertificate(directory) : undefined;
      const ours = await ourCopyTool(directory);
      const tools = [ours, ...peerCopyTools()];
      const runs = new Map<string, Run[]>(tools.map((tool) => [tool.name, []]));
      const startSeconds = await startTime(ours);

      await using source = await startDistribution(directory, certificate);
      await fill(source.url, SHAPES[shape], directory, certificate);
      for (let turn = 0; turn < ROUNDS; turn++) {
        for (const tool of tools) {
          await using destination = await startDistribution(directory, certificate);
          const to = `${destination.host}/bench/image:v1`;
          const args = tool.args(`${source.host}/bench/image:v1`, to, access(certificate));
          const run = await runProgram(tool.file, args);
          say(`${name} ${tool.name} ${run.seconds.toFixed(2)} s`);
          runs.get(tool.name)?.push(run);
        }
      }
      yield compare(name, goal, tools, runs, startSeconds);
      const rss = Math.max(...(runs.get("exclave") ?? []).map(({ peakBytes }) => peakBytes)) / 1e6;
      yield {
        figure: `${name}-rss`,
        value: round(rss, 0),
        unit: "MB",
        beside: { goal: `<= ${RSS_MAX_MB}`, isMet: rss <= RSS_MAX_MB },
      };
    },
  };
}

function compare(
  figure: string,
  goal: number,
  tools: readonly CopyTool[],
  runs: ReadonlyMap<string, readonly Run[]>,
  startSeconds: number,
): Figure {
  const best = (name: string) => Math.min(...(runs.get(name) ?? []).map(({ seconds }) => seconds));
  const ours = best("exclave");
  const peers = tools.filter(({ name }) => name !== "exclave");
  const [measure] = peers;
  const ratio = measure ? round(ours / best(measure.name)) : Number.NaN;
  return {
    figure,
    value: ratio,
    unit: measure ? `time, as a multiple of ${measure.name} ${measure.version}` : "no peer is here",
    beside: {
      goal: `<= ${goal}`,
      isMet: ratio <= goal,
      seconds: Object.fromEntries(tools.map(({ name }) => [name, round(best(name))])),
      ratios: Object.fromEntries(
        peers.map(({ name, version }) => [`${name} ${version}`, round(ours / best(name))]),
      ),
      ofWhichStartSeconds: round(startSeconds),
    },
  };
}

/** What a process of ours takes before it does anything; part of its time in every figure. */
async function startTime(ours: CopyTool): Promise<number> {
  const [program = ""] = ours.args("", "", {});
  const times: number[] = [];
  for (let turn = 0; turn < ROUNDS; turn++) {
    times.push((await runProgram(ours.file, [program, "--help"])).seconds);
  }
  return Math.min(...times);
}

async function* warmCopy(directory: string): AsyncIterable<Figure> {
  const ours = await ourCopyTool(directory);
  const tools = [ours, ...peerCopyTools()];
  await using source = await startDistribution(directory);
  await using destination = await startDistribution(directory);
  await fill(source.url, SHAPES["200x1mb"], directory);
  const [from, to] = [source, destination].map(({ host }) => `${host}/bench/image:v1`) as [
    string,
    string,
  ];
  await runProgram(ours.file, ours.args(from, to, {}));
  const seconds: Record<string, number> = {};
  let requests = Number.NaN;
  for (let turn = 0; turn < ROUNDS; turn++) {
    for (const tool of tools) {
      const run = await runProgram(tool.file, tool.args(from, to, {}));
      seconds[tool.name] = round(Math.min(run.seconds, seconds[tool.name] ?? Infinity), 3);
      if (tool === ours) requests = (JSON.parse(run.stdout) as { requests: number }).requests;
    }
  }
  const beside = { goal: "2", isMet: requests === 2, seconds };
  yield { figure: "copy-warm", value: requests, unit: "requests", beside };
}

async function fill(
  url: string,
  shape: (typeof SHAPES)[ShapeName],
  directory: string,
  certificate?: Certificate,
): Promise<void> {
  const ca = certificate && (await readFile(certificate.certificate));
  const client = createRegistryClient({ url, ca });
  try {
    await pushImage(client, "bench/image", shape, directory);
  } finally {
    client.close();
  }
}

function access(certificate: Certificate | undefined) {
  return { ca: certificate?.certificate };
}
