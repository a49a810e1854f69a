// Which program does the work: OpenTofu or Terraform, whichever the machine has. A component stays
// with the one that wrote its state, because neither promises to read what a newer other one wrote.

import { Failure, type OperationContext, z } from "@exclave/plugin-sdk";

/** In the order they are looked for: of the two, Terraform loses less when it is killed. */
export const ToolName = z.enum(["terraform", "tofu"]);
export type ToolName = z.infer<typeof ToolName>;

export interface Tool {
  readonly name: ToolName;
  readonly version: string;
}

const Version = z.object({ terraform_version: z.string() });

/** The tools to look for, in order. */
export function candidates(
  wish: ToolName | "auto",
  before: ToolName | undefined,
): readonly ToolName[] {
  if (wish !== "auto") return [wish];
  return before ? [before] : ToolName.options;
}

export async function findTool(
  context: Pick<OperationContext, "run">,
  wish: ToolName | "auto",
  before: ToolName | undefined,
): Promise<Tool> {
  if (wish !== "auto" && before !== undefined && wish !== before) {
    const message = `the state was written by ${before} and the component now asks for ${wish}`;
    throw new Failure("conflict", message);
  }
  const names = candidates(wish, before);
  for (const name of names) {
    const version = await versionOf(context, name);
    if (version) return { name, version };
  }
  const wanted = names.join(" or ");
  const why = before && wish === "auto" ? ", which wrote this component's state," : "";
  throw new Failure("unavailable", `${wanted}${why} is not on the PATH of this machine`);
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
