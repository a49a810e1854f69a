// Every state a Job and its pod can be in, against what is said of the job.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobRun } from "../job-runtime.ts";
import { jobRunOf, KubeJob, KubePod } from "./job-run.ts";

const lost = (because: string): JobRun => ({ kind: "exited", exit: { kind: "lost", because } });
const code = (value: number): JobRun => ({ kind: "exited", exit: { kind: "code", code: value } });

function job(type?: string, reason?: string) {
  const conditions = type === undefined ? [] : [{ type, status: "True", reason }];
  return KubeJob.parse({ metadata: { name: "j", uid: "1" }, status: { conditions } });
}

function pod(phase: string, state: object = {}, more: object = {}) {
  const containerStatuses = [{ name: "job", state }];
  return KubePod.parse({
    metadata: { name: "p", uid: "2" },
    status: { phase, containerStatuses, ...more },
  });
}

const exited = (exitCode: number, reason = "Error") => ({ terminated: { exitCode, reason } });
const stopped = { kind: "stopped" } as const;

const CASES: readonly [string, Partial<Parameters<typeof jobRunOf>[0]>, JobRun][] = [
  ["never sent", {}, { kind: "absent" }],
  ["sent and gone", { isSent: true }, lost("somebody deleted its Job")],
  ["stopped and gone", { isSent: true, end: stopped }, { kind: "exited", exit: stopped }],
  [
    "no pod yet",
    { job: job() },
    { kind: "waiting", because: "the cluster has not made its pod yet" },
  ],
  [
    "about to be stopped, and its pod may come",
    { job: job(), end: stopped },
    { kind: "waiting", because: "the cluster has not made its pod yet" },
  ],
  [
    "an image that cannot be pulled",
    { job: job(), pod: pod("Pending", { waiting: { reason: "ImagePullBackOff", message: "x" } }) },
    { kind: "waiting", because: "ImagePullBackOff: x" },
  ],
  [
    "no node for it",
    {
      job: job(),
      pod: pod(
        "Pending",
        {},
        {
          conditions: [
            { type: "PodScheduled", status: "False", reason: "Unschedulable", message: "0/1" },
          ],
        },
      ),
    },
    { kind: "waiting", because: "Unschedulable: 0/1" },
  ],
  ["at work", { job: job(), pod: pod("Running", { running: {} }) }, { kind: "running" }],
  [
    "at work, though its end is written down",
    { job: job(), pod: pod("Running", { running: {} }), end: stopped },
    { kind: "running" },
  ],
  ["its node is silent", { job: job(), pod: pod("Unknown") }, { kind: "running" }],
  [
    "at work, and its Job is gone",
    { pod: pod("Running", { running: {} }), isSent: true },
    { kind: "running" },
  ],
  ["ended well", { job: job("Complete"), pod: pod("Succeeded", exited(0)) }, code(0)],
  ["ended badly", { job: job("Failed"), pod: pod("Failed", exited(3)) }, code(3)],
  [
    "killed",
    { job: job("Failed"), pod: pod("Failed", exited(137)) },
    { kind: "exited", exit: { kind: "signal", signal: "SIGKILL" } },
  ],
  [
    "out of memory",
    { job: job("Failed"), pod: pod("Failed", exited(137, "OOMKilled")) },
    { kind: "exited", exit: { kind: "out-of-memory" } },
  ],
  [
    "past its deadline",
    { job: job("Failed"), pod: pod("Failed", exited(137), { reason: "DeadlineExceeded" }) },
    { kind: "exited", exit: { kind: "deadline" } },
  ],
  [
    "past its deadline without a node",
    { job: job("Failed", "DeadlineExceeded") },
    { kind: "exited", exit: { kind: "deadline" } },
  ],
  [
    "evicted",
    {
      job: job("Failed"),
      pod: pod("Failed", exited(137), { reason: "Evicted", message: "memory" }),
    },
    lost("its node evicted it: memory"),
  ],
  [
    "too much on its disk",
    {
      job: job("Failed"),
      pod: pod(
        "Failed",
        {},
        {
          reason: "Evicted",
          message: 'Usage of EmptyDir volume "job" exceeds the limit "1".',
        },
      ),
    },
    {
      kind: "exited",
      exit: {
        kind: "over-limit",
        because: 'its node evicted it: Usage of EmptyDir volume "job" exceeds the limit "1".',
      },
    },
  ],
  [
    "its node came back without it",
    { job: job("Failed"), pod: pod("Failed", exited(137, "ContainerStatusUnknown")) },
    lost("its node did not see it end"),
  ],
  [
    "its pod was deleted",
    { job: job("Failed", "BackoffLimitExceeded") },
    lost("its pod is gone: BackoffLimitExceeded"),
  ],
  ["ended well, and its pod is swept", { job: job("Complete") }, code(0)],
  [
    "seen before otherwise",
    { job: job("Failed"), pod: pod("Failed", exited(3)), end: { kind: "deadline" } },
    { kind: "exited", exit: { kind: "deadline" } },
  ],
];

for (const [what, seen, run] of CASES) {
  test(`${what}: ${run.kind}`, () => {
    const all = { job: undefined, pod: undefined, end: undefined, isSent: false, ...seen };
    assert.deepEqual(jobRunOf(all), run);
  });
}
