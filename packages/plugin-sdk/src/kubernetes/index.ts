export { readYamlDocuments } from "@exclave/core";
export * from "./cluster-access.ts";
export * from "./kube-object.ts";
export * from "./kubectl.ts";
export * from "./object-changes.ts";
export * from "./own-namespace.ts";
export * from "./planned-changes.ts";
export * from "./readiness.ts";
export * from "./workloads.ts";
