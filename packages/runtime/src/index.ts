export * from "./job-runtime.ts";
export {
  clearEngine,
  type EngineContent,
  type EngineOwner,
  listEngine,
} from "./podman/clear-engine.ts";
export type { ImageArchive, ImageArchives } from "./podman/engine-images.ts";
export { createPodmanRuntime, type PodmanRuntimeOptions } from "./podman/podman-runtime.ts";
export type { ImageConfig, ImageSource } from "./process/image-cache.ts";
export { createProcessRuntime, type ProcessRuntimeOptions } from "./process/process-runtime.ts";
export { createTreeSeals, removeTree, type TreeSeals } from "./process/tree-seal.ts";
