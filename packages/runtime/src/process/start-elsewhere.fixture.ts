// An agent's process in miniature: starts one job and then lingers, to be killed by the test.
// Usage: node start-elsewhere.fixture.ts <directory> <images> <spec as JSON>

import type { JobSpec } from "../job-runtime.ts";
import { createScriptImages } from "../testing/script-images.ts";
import { createProcessRuntime } from "./process-runtime.ts";

const [directory = "", images = "", spec = ""] = process.argv.slice(2);
const runtime = createProcessRuntime({ directory, openImage: createScriptImages(images) });
await runtime.start(JSON.parse(spec) as JobSpec);
process.stdout.write("started\n");
setInterval(() => undefined, 60_000);
