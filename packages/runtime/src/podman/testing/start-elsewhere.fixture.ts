// An agent's process in miniature: starts one job and then lingers, to be killed by the test.
// Usage: node start-elsewhere.fixture.ts <options as JSON> <image id> <spec as JSON>

import type { JobSpec } from "../../job-runtime.ts";
import { createPodmanRuntime } from "../podman-runtime.ts";

const [options = "", id = "", spec = ""] = process.argv.slice(2);
const images = {
  // The test has loaded it.
  open: async () => ({
    id,
    read(): AsyncIterable<Uint8Array> {
      throw new Error("the image is there already");
    },
    close() {},
  }),
};
const runtime = createPodmanRuntime({ ...JSON.parse(options), images });
await runtime.start(JSON.parse(spec) as JobSpec);
process.stdout.write("started\n");
setInterval(() => undefined, 60_000);
