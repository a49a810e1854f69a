// What the server remembers, noun by noun. A row that comes back from a database is unknown until
// the schema here has read it.

export * from "./rows/agent-rows.ts";
export * from "./rows/install-rows.ts";
export * from "./rows/job-rows.ts";
export * from "./rows/release-rows.ts";
