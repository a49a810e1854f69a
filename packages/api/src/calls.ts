// Every REST call of `/v1`.

import type { Call } from "./call.ts";
import { createJoin, joinAgent, listAgents, revokeAgent } from "./calls/agent-calls.ts";
import { getCheckpoint, listAudit, listCheckpoints } from "./calls/audit-calls.ts";
import { getAuthority, retireAuthority, rotateAuthority } from "./calls/authority-calls.ts";
import {
  createInstall,
  deployInstall,
  destroyInstall,
  forgetInstall,
  getInstall,
  listInstalls,
  runInInstall,
  setupInstall,
} from "./calls/install-calls.ts";
import { cancelJob, getJob, getJobLog, listJobs } from "./calls/job-calls.ts";
import {
  exportRootKey,
  forgetRootKey,
  getKeys,
  getTrust,
  publishTrust,
  renewTrust,
  rotateKey,
} from "./calls/key-calls.ts";
import {
  checkApp,
  createRelease,
  getRelease,
  headSource,
  listChannels,
  listPlugins,
  listReleases,
  putSource,
  setChannel,
} from "./calls/release-calls.ts";
import { getInfo, getMetrics, getReleaseKey, watchEvents } from "./calls/server-calls.ts";
import { createToken, listTokens, revokeToken } from "./calls/token-calls.ts";

export * from "./calls/agent-calls.ts";
export * from "./calls/audit-calls.ts";
export * from "./calls/authority-calls.ts";
export { PAGE_ITEMS_MAX } from "./calls/call-shapes.ts";
export * from "./calls/install-calls.ts";
export * from "./calls/job-calls.ts";
export * from "./calls/key-calls.ts";
export * from "./calls/release-calls.ts";
export * from "./calls/server-calls.ts";
export * from "./calls/token-calls.ts";

export const CALLS: readonly Call[] = [
  getInfo,
  getReleaseKey,
  getTrust,
  joinAgent,
  listAgents,
  listPlugins,
  headSource,
  putSource,
  createRelease,
  listReleases,
  getRelease,
  checkApp,
  listChannels,
  setChannel,
  createInstall,
  listInstalls,
  getInstall,
  deployInstall,
  destroyInstall,
  forgetInstall,
  runInInstall,
  setupInstall,
  listJobs,
  getJob,
  cancelJob,
  getJobLog,
  getCheckpoint,
  listCheckpoints,
  listAudit,
  listTokens,
  createToken,
  revokeAgent,
  revokeToken,
  createJoin,
  getAuthority,
  rotateAuthority,
  retireAuthority,
  getKeys,
  rotateKey,
  renewTrust,
  publishTrust,
  exportRootKey,
  forgetRootKey,
  watchEvents,
  getMetrics,
];
