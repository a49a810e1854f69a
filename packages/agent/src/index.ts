export * from "./core/agent-core.ts";
export * from "./core/agent-state.ts";
export * from "./journal/journal.ts";
export { createMemoryJournal } from "./journal/memory-journal.ts";
export { createSqliteJournal } from "./journal/sqlite-journal.ts";
