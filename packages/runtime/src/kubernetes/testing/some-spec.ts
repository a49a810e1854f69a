// A job and a place for tests that are about something else.

import { jobName } from "@exclave/core";
import type { JobSpec } from "../../job-runtime.ts";
import type { JobPlace } from "../job-order.ts";

export const orderPlace: JobPlace = {
  namespace: "jobs",
  imageRegistry: "registry.test:5000",
  document: { url: "https://agent.test:8443/v1/document", ca: "the authority" },
  serviceAccounts: {},
  apiClasses: ["apply"],
  graceSeconds: () => 30,
  scheduleSeconds: 600,
};

export function someSpec(changes: Partial<JobSpec> = {}): JobSpec {
  return {
    name: jobName("jabc", 1),
    image: { registryUrl: "https://x", repository: "apps/crm", digest: `sha256:${"a".repeat(64)}` },
    jobClass: "apply",
    files: { "job.json": "{}" },
    environment: {},
    limits: {},
    network: "none",
    deadlineMs: 60_000,
    ...changes,
  };
}
