export * from "./archives.ts";
export * from "./clear-engine.ts";
export * from "./engine-client.ts";
export * from "./labels.ts";
export { listenOnSocket } from "./listen-on-socket.ts";
export { payloads } from "./log-frames.ts";
