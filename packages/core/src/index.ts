export * from "./canonical.ts";
export * from "./failure.ts";
export * from "./ids.ts";
export * from "./job/job-document.ts";
export * from "./job/job-line.ts";
export * from "./manifest.ts";
export * from "./plugin-descriptor.ts";
