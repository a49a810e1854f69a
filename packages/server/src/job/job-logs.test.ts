import { createMemoryObjectStore, createS3ObjectStore } from "@exclave/oci/objects";
import { startFakeS3 } from "@exclave/oci/testing/objects";
import { describeJobLogs } from "../testing/describe-job-logs.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createJobLogs } from "./job-logs.ts";
import { createMemoryJobLogs } from "./memory-job-logs.ts";
import { createObjectJobLogs } from "./object-job-logs.ts";

describeJobLogs("job logs in files", async (t, options) =>
  createJobLogs(await temporaryDirectory(t), options),
);
describeJobLogs("job logs in memory", async (_, options) => createMemoryJobLogs(options));
describeJobLogs("job logs in objects in memory", async (_, options) =>
  createObjectJobLogs(createMemoryObjectStore(), options),
);
describeJobLogs("job logs in S3", async (t, options) => {
  const fake = await startFakeS3();
  const store = createS3ObjectStore({ settings: fake.settings });
  t.after(async () => {
    store.close();
    await fake.close();
  });
  return createObjectJobLogs(store, options);
});
