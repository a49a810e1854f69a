export * from "./call.ts";
export * from "./calls.ts";
export * from "./client.ts";
export * from "./join.ts";
export * from "./link/link.ts";
export * from "./openapi.ts";
export * from "./resources.ts";
