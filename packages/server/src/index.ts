export {
  type AgentEventFacts,
  type AgentEventWrites,
  applyAgentEvent,
  RUNNER_REPOSITORY,
} from "./link/apply-agent-event.ts";
export {
  COMMAND_WINDOW,
  type HelloFacts,
  type LinkEffect,
  type LinkInput,
  type LinkRecord,
  type LinkSettings,
  type LinkState,
  type LinkTurn,
  type LinkWrite,
  type LiveLink,
  type SequencedCommand,
  stepLink,
} from "./link/server-core.ts";
export { type RunningServer, type ServerOptions, startServer } from "./server.ts";
export type { ComponentRow, InstallRow, JobRow } from "./store/rows.ts";
