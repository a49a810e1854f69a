export type { AgentEventFacts, AgentEventWrites } from "./link/agent-event-writes.ts";
export { applyAgentEvent } from "./link/apply-agent-event.ts";
export {
  type HelloFacts,
  type LinkEffect,
  type LinkInput,
  type LinkRecord,
  type LinkSettings,
  type LinkState,
  type LinkWrite,
  type LiveLink,
  type SequencedCommand,
} from "./link/link-state.ts";
export { advanceLink, type LinkStep } from "./link/server-core.ts";
export { type RunningServer, type ServerOptions, startServer } from "./server.ts";
export type { ComponentRow, InstallRow, JobRow } from "./store/rows.ts";
