export * from "./plugin.ts";
