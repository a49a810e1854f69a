// Which program does the work: OpenTofu or Terraform, whichever the machine has. A component stays
// with the one that wrote its state, because neither promises to read what a newer other one wrote,
// and with the one that built it, because each looks for providers and modules under its own addresses.

import { Failure, type OperationContext, z } from "@exclave/plugin-sdk";

/** In the order they are looked for: of the two, Terraform loses less when it is killed. */
export const ToolName = z.enum(["terraform", "tofu"]);
export type ToolName = z.infer<typeof ToolName>;

export interface Tool {
  readonly name: ToolName;
  readonly version: string;
}

const Version = z.object({ terraform_version: z.string() });

/** What speaks for one tool or the other. */
export interface ToolFacts {
  readonly wish: ToolName | "auto";
  /** The one that wrote the component's state. */
  readonly wrote?: ToolName | undefined;
  /** The one that built the artifact. */
  readonly built?: ToolName | undefined;
}

export interface ToolChoice {
  /** The tools to look for, in order. */
  readonly names: readonly ToolName[];
  /** What is wrong where the machine has none of them. */
  readonly missing: string;
}

const NOT_THERE = "not on the PATH of this machine";

export function chooseTool({ wish, wrote, built }: ToolFacts): ToolChoice {
  if (wish !== "auto") {
    if (wrote !== undefined && wish !== wrote) {
      const message = `the state was written by ${wrote} and the component now asks for ${wish}`;
      throw new Failure("conflict", message);
    }
    return { names: [wish], missing: `${wish} is ${NOT_THERE}` };
  }
  if (wrote !== undefined) {
    if (built !== undefined && built !== wrote) {
      const message = `the state was written by ${wrote} and this was built with ${built}; say tool: ${wrote} and build again`;
      throw new Failure("conflict", message);
    }
    return {
      names: [wrote],
      missing: `${wrote}, which wrote this component's state, is ${NOT_THERE}`,
    };
  }
  if (built !== undefined) {
    const other = built === "terraform" ? "tofu" : "terraform";
    const missing = `this was built with ${built}, which is ${NOT_THERE}; install it, or say tool: ${other} and build again`;
    return { names: [built], missing };
  }
  return { names: ToolName.options, missing: `${ToolName.options.join(" or ")} is ${NOT_THERE}` };
}

export async function findTool(
  context: Pick<OperationContext, "run">,
  facts: ToolFacts,
): Promise<Tool> {
  const { names, missing } = chooseTool(facts);
  for (const name of names) {
    const version = await versionOf(context, name);
    if (version) return { name, version };
  }
  throw new Failure("unavailable", missing);
}

async function versionOf(
  context: Pick<OperationContext, "run">,
  name: ToolName,
): Promise<string | undefined> {
  try {
    const { stdout } = await context.run(name, ["version", "-json"], {
      echo: false,
      environment: { CHECKPOINT_DISABLE: "1", TF_CLI_CONFIG_FILE: "/dev/null" },
    });
    return Version.parse(JSON.parse(stdout)).terraform_version;
  } catch (reason) {
    // How the SDK says that there is no such program; any other failure is worth seeing.
    if (reason instanceof Failure && reason.code === "invalid") return undefined;
    throw reason;
  }
}
