export * from "./durable-files.ts";
export * from "./durable-files-sync.ts";
export * from "./file-lock.ts";
export * from "./private-files.ts";
export * from "./process-claim.ts";
export * from "./process-identity.ts";
export * from "./verify-signature.ts";
