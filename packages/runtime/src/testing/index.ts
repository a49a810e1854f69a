export * from "../podman/testing/container-images.ts";
export * from "../podman/testing/scratch-engine.ts";
export * from "./fake-runtime.ts";
export * from "./job-observation.ts";
export * from "./job-runtime-contract.ts";
export * from "./job-script.ts";
export * from "./runtime-under-test.ts";
export * from "./script-images.ts";
