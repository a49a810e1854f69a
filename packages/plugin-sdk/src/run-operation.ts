// Calls one operation of a plugin: checks that it is offered and that the configuration is what the
// plugin said it understands, then hands over.

import { Failure, type PluginOperation } from "@exclave/core";
import { type ContextOptions, createOperationContext } from "./context.ts";
import type { BuildResult, PlanResult, Plugin, StatusResult } from "./define-plugin.ts";

/** What an operation gave back; each operation fills in its own part. */
export interface OperationOutcome {
  readonly build?: BuildResult;
  readonly plan?: PlanResult;
  readonly status?: StatusResult;
  readonly exitCode?: number;
}

export async function runOperation(
  plugin: Plugin,
  operation: PluginOperation,
  options: ContextOptions<Readonly<Record<string, unknown>>>,
): Promise<OperationOutcome> {
  const { definition } = plugin;
  if (!definition[operation]) {
    const offered = Object.keys(plugin.descriptor.operations).join(", ");
    const message = `the plugin ${definition.type} has no ${operation}; it offers ${offered}`;
    throw new Failure("invalid", message);
  }
  const config = checkConfig(plugin, options.config);
  const context = createOperationContext({ ...options, config });

  switch (operation) {
    case "build":
      return { build: await definition.build?.(context) } as OperationOutcome;
    case "plan":
      return { plan: await definition.plan?.(context) } as OperationOutcome;
    case "status":
      return { status: await definition.status?.(context) } as OperationOutcome;
    case "exec":
      return { ...(await definition.exec?.(context)) };
    default:
      await definition[operation]?.(context);
      return {};
  }
}

function checkConfig(plugin: Plugin, config: unknown): Record<string, unknown> {
  const checked = plugin.definition.config.safeParse(config);
  if (checked.success) return checked.data;
  const problems = checked.error.issues.map(
    ({ path, message }) => `${path.join(".") || "configuration"}: ${message}`,
  );
  throw new Failure(
    "invalid",
    `configuration of ${plugin.definition.type}: ${problems.join("; ")}`,
  );
}
