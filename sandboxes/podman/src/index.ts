export { createPodmanSandbox, plugin } from "./plugin.ts";
