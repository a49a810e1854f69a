// What the simulation runs of the server: the production shells, and the ports in memory that it hands
// them; and what tests that span packages begin with. Not part of the public surface.

export { makeCertificate } from "@exclave/machine";
export { createRepeats } from "../access/repeats.ts";
export { openCheckpoints } from "../audit/checkpoints.ts";
export type { ServerContext } from "../context.ts";
export { createInstall } from "../install/create-install.ts";
export { gatherInstall } from "../install/gather-install.ts";
export { decideInstall, type InstallDecision } from "../install/install-decision.ts";
export { reconcileInstall } from "../install/install-loop.ts";

export {
  deployInstall,
  destroyInstall,
  forgetInstall,
  setupInstall,
} from "../install/installs.ts";

export { runInInstall } from "../install/run-in-install.ts";
export { cancelJob } from "../job/cancel-job.ts";
export { issueJob } from "../job/issue-job.ts";
export { createMemoryJobLogs, type MemoryLog } from "../job/memory-job-logs.ts";
export { createJoin, joinAgent } from "../joins.ts";
export { closeLeftLogs } from "../link/close-log.ts";
export { createLinkEndpoint, type LinkEndpoint } from "../link/link-endpoint.ts";
export { createLiveEvents } from "../live-events.ts";
export { createReconcileLoop, type ReconcileLoop } from "../reconcile-loop.ts";
export { createAppReader } from "../release/app-of-release.ts";
export { reconcileReleases } from "../release/release-loop.ts";
export { statementOf } from "../release/sign-release.ts";
export {
  createMemoryStore,
  type MemoryData,
  type MemoryDisk,
  newMemoryDisk,
} from "../store/memory/memory-store.ts";
export type { AgentRow, InstallRow, JobRow, ReleaseRow } from "../store/rows.ts";
export type { Store } from "../store/store.ts";
export { openAuthority } from "../tls/authority.ts";
export type { Trust } from "../trust/trust.ts";
export { temporaryDirectory } from "./temporary-directory.ts";
export { type TestServer, testServer, until } from "./test-server.ts";
