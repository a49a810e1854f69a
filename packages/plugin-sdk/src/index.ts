export {
  Failure,
  type FailureCode,
  type JobLine,
  PLUGIN_ANNOTATION,
  PluginDescriptor,
  parseSandboxContract,
  SandboxContract,
} from "@exclave/core";
export * from "./context.ts";
export * from "./define-plugin.ts";
export * from "./kept-port.ts";
export * from "./machine.ts";
export * from "./parameters.ts";
export * from "./program-end.ts";
export * from "./program-plugin.ts";
export * from "./run-operation.ts";
export * from "./source-build.ts";
