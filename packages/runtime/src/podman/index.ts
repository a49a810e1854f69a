export type { ImageArchive, ImageArchives } from "./engine-images.ts";
export { createPodmanRuntime, type PodmanRuntimeOptions } from "./podman-runtime.ts";
