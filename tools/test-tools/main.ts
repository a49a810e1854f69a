// Fetches what the end-to-end tests can use, ahead of them: `npm run test:tools`.

import { provideClusterTools } from "./cluster-tools.ts";
import { provideTestTools } from "./provide.ts";

await provideTestTools((line) => console.log(line));
const cluster = await provideClusterTools((line) => console.log(line));
if (cluster.kind === "unavailable") {
  console.log(`not to be had: ${cluster.because}; not tried: everything on a real cluster`);
}
