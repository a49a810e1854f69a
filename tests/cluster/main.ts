// A cluster to try things on by hand: `node tests/cluster/main.ts`, until Ctrl-C.

import { once } from "node:events";
import { offerCluster } from "./cluster.ts";

const offer = await offerCluster((line) => console.log(line));
if (offer.kind === "unavailable") {
  console.error(`no cluster can be had here: ${offer.because}`);
  process.exit(1);
}
const cluster = await offer.start();
console.log(`export KUBECONFIG=${cluster.kubeconfig}`);
// A signal alone does not keep Node up.
const alive = setInterval(() => undefined, 60_000);
await Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]);
clearInterval(alive);
await cluster.stop();
