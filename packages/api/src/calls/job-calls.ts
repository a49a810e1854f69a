// Jobs and their logs.

import { z } from "zod";
import { call } from "../call.ts";
import { JobStatus, JobView } from "../resources.ts";
import { get, list, none, nothing, page, post } from "./call-shapes.ts";

const Job = z.object({ job: z.string() });

export const listJobs = get({
  name: "listJobs",
  path: "/v1/jobs",
  access: "viewer",
  summary: "Jobs, newest first",
  params: none,
  query: page.extend({
    install: z.string().optional(),
    component: z.string().optional(),
    state: JobStatus.optional(),
    release: z.string().optional(),
  }),
  response: list(JobView),
});

export const getJob = get({
  name: "getJob",
  path: "/v1/jobs/:job",
  access: "viewer",
  summary: "One job",
  params: Job,
  query: none,
  response: JobView,
});

export const cancelJob = post({
  name: "cancelJob",
  path: "/v1/jobs/:job/cancel",
  access: "operator",
  summary: "Asks a job to stop",
  params: Job,
  body: z.object({ graceMs: z.int().min(0).max(600_000).default(10_000) }),
  response: JobView,
});

export const getJobLog = call({
  name: "getJobLog",
  method: "GET",
  path: "/v1/jobs/:job/log",
  access: "viewer",
  summary: "A job's log from an offset; with `follow`, until the job has ended and all is there",
  params: Job,
  query: z.object({
    from: z.coerce.number().int().min(0).default(0),
    follow: z.stringbool().default(false),
  }),
  body: nothing,
  response: z.unknown(),
  produces: "bytes",
  consumes: "nothing",
  status: 200,
});
