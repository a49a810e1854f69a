// What a server counts of itself. No label has a value per agent, install or job: ten thousand installs
// make no more series than one.

import { isSettled } from "@exclave/core";
import type { AgentRow, JobRow } from "../store/rows.ts";
import { createInstruments, one } from "./instruments.ts";
import { addProcess } from "./process-instruments.ts";

export interface Metrics {
  /** A job as an agent's word left it; counted when it is over. */
  jobTold(job: CountedJob): void;
  answered(request: AnsweredRequest): void;
  /** Does it, and counts how long that took and whether it failed. */
  reconciling<Result>(loop: Loop, work: () => Promise<Result>): Promise<Result>;
  render(): string;
  close(): void;
}

export type CountedJob = Pick<
  JobRow,
  "operation" | "state" | "createdAt" | "startedAt" | "endedAt"
>;

export interface AnsweredRequest {
  /** As it was declared, with `:name` for what varies. */
  readonly route: string;
  readonly method: string;
  readonly status: number;
  readonly seconds: number;
}

export type Loop = "installs" | "releases";

export interface MetricsSources {
  readonly version: string;
  /** Of agents that are connected. */
  readonly agents: () => ReadonlyMap<AgentRow["kind"], number>;
  /** What is marked and not yet reconciled. */
  readonly backlog: (loop: Loop) => number;
  /** Spans that no collector took. */
  readonly droppedSpans: () => number;
}

const REQUEST_BOUNDS = [0.005, 0.02, 0.05, 0.1, 0.25, 1, 5, 30];
const RECONCILE_BOUNDS = [0.001, 0.005, 0.02, 0.05, 0.25, 1, 5];
const JOB_BOUNDS = [0.1, 0.5, 1, 5, 15, 60, 300, 1_800, 7_200];
const KINDS: readonly AgentRow["kind"][] = ["install", "build", "setup"];
const LOOPS: readonly Loop[] = ["installs", "releases"];

export function createMetrics(sources: MetricsSources): Metrics {
  const instruments = createInstruments();
  const eventLoop = addProcess(instruments);
  addServer();
  const ended = instruments.counter(
    "exclave_jobs_ended_total",
    "Jobs whose end an agent told, by operation and how they ended.",
  );
  const waited = instruments.histogram(
    "exclave_job_wait_seconds",
    "From a job's making to its start in the runtime.",
    JOB_BOUNDS,
  );
  const ran = instruments.histogram(
    "exclave_job_run_seconds",
    "From a job's start to its end.",
    JOB_BOUNDS,
  );
  const requests = instruments.histogram(
    "exclave_http_request_seconds",
    "Requests to the API by route and class of status; streams count until they end.",
    REQUEST_BOUNDS,
  );
  const reconciled = instruments.histogram(
    "exclave_reconcile_seconds",
    "Reconciliations, by what was looked at and how they ended.",
    RECONCILE_BOUNDS,
  );

  return {
    jobTold({ operation, state, createdAt, startedAt, endedAt }) {
      if (!isSettled(state)) return;
      ended.add({ operation, outcome: state.status });
      if (startedAt === null) return;
      waited.observe({ operation }, secondsBetween(createdAt, startedAt));
      if (endedAt !== null) ran.observe({ operation }, secondsBetween(startedAt, endedAt));
    },
    answered({ route, method, status, seconds }) {
      requests.observe({ method, route, status: `${Math.floor(status / 100)}xx` }, seconds);
    },
    async reconciling(loop, work) {
      const began = performance.now();
      let outcome = "failed";
      try {
        const result = await work();
        outcome = "ok";
        return result;
      } finally {
        reconciled.observe({ loop, outcome }, (performance.now() - began) / 1_000);
      }
    },
    render: () => instruments.render(),
    close: () => eventLoop.close(),
  };

  function addServer(): void {
    const { version, agents, backlog, droppedSpans } = sources;
    instruments.gauge("exclave_info", "The version of this server.", () => [
      { labels: { version }, value: 1 },
    ]);
    instruments.gauge("exclave_agents_connected", "Agents with a proven connection, by kind.", () =>
      KINDS.map((kind) => ({ labels: { kind }, value: agents().get(kind) ?? 0 })),
    );
    instruments.count("exclave_spans_dropped_total", "Spans that no collector took.", () =>
      one(droppedSpans()),
    );
    instruments.gauge("exclave_reconcile_backlog", "Marked, and not yet reconciled.", () =>
      LOOPS.map((loop) => ({ labels: { loop }, value: backlog(loop) })),
    );
  }
}

/** Two clocks may have told them: never less than nothing. */
function secondsBetween(from: number, to: number): number {
  return Math.max(0, to - from) / 1_000;
}
