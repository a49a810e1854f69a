export * from "./assemble.ts";
export * from "./line-writer.ts";
export * from "./load-plugin.ts";
export * from "./module/module-package.ts";
export * from "./module/terraform-provider.ts";
export * from "./plan-store.ts";
export * from "./run-job.ts";
