// What the simulation runs of the agent: the production shells, and the ports in memory that it hands
// them. Not part of the public surface.

export { type Agent, startAgent } from "../agent.ts";
export { type ComposeOptions, composeAgent } from "../compose.ts";
export type { AgentRules } from "../core/agent-state.ts";
export type { Identity } from "../identity/identity.ts";
export { type Joined, joinPorts, joinServer } from "../identity/join.ts";
export { type JoiningKeys, makeJoiningKeys } from "../identity/joining-keys.ts";
export { createJobs, type Jobs } from "../job/jobs.ts";
export { createMemorySpool, type SpooledFile } from "../job/memory-spool.ts";
export type { OwnInstall, Workplace } from "../job/prepare-job.ts";
export type { Journal, JournalWrite } from "../journal/journal.ts";
export { createMemoryJournal } from "../journal/memory-journal.ts";
export type { KeptStatement } from "../journal/release-memory.ts";
export { createDial } from "../link/dial-server.ts";
export { type LinkClientOptions, openLink } from "../link/link-client.ts";
export type { FindStatement } from "../release/find-statements.ts";
export { createReleaseGate } from "../release/release-gate.ts";
export type { TrustFile } from "../trust/trust-file.ts";
export { createMemoryVault } from "../vault/memory-vault.ts";
export type { Vault } from "../vault/vault.ts";
export { createVaultedJournal } from "../vault/vaulted-journal.ts";
export { describeLinkClient, type LinkPeer, type LinkUnderTest } from "./link-client-contract.ts";
