import { describePeers } from "../testing/describe-peers.ts";
import { createMemoryPeers, createPeerHub } from "./memory-peers.ts";

describePeers("memory", () => {
  const hub = createPeerHub();
  return async () => createMemoryPeers(hub);
});
