export {
  type AgentEventFacts,
  type AgentEventWrites,
  applyAgentEvent,
} from "./link/apply-agent-event.ts";
export { RUNNER_REPOSITORY } from "./link/job-consequences.ts";
export {
  COMMAND_WINDOW,
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
export { type LinkTurn, stepLink } from "./link/server-core.ts";
export { type RunningServer, type ServerOptions, startServer } from "./server.ts";
export type { ComponentRow, InstallRow, JobRow } from "./store/rows.ts";
