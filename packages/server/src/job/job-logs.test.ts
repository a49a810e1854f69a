import { describeJobLogs } from "../testing/describe-job-logs.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createJobLogs } from "./job-logs.ts";
import { createMemoryJobLogs } from "./memory-job-logs.ts";

describeJobLogs("job logs in files", async (t, options) =>
  createJobLogs(await temporaryDirectory(t), options),
);
describeJobLogs("job logs in memory", async (_, options) => createMemoryJobLogs(options));
