export * from "./job-runtime.ts";
export type { ImageConfig, ImageSource } from "./process/image-cache.ts";
export { createProcessRuntime, type ProcessRuntimeOptions } from "./process/process-runtime.ts";
export { createTreeSeals, removeTree, type TreeSeals } from "./process/tree-seal.ts";
