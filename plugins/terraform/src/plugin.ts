// Deploys a Terraform module with OpenTofu or Terraform, whichever built it. The state never
// leaves the install; what is applied is exactly the plan that was made, or nothing.

import { appendFileSync, writeFileSync } from "node:fs";
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { definePlugin, Failure, type OperationContext, z } from "@exclave/plugin-sdk";
import { buildModule, Platform } from "./build-module.ts";
import { readBuildRecord } from "./build-record.ts";
import {
  type Applied,
  backUpState,
  type ComponentState,
  componentState,
  forgetState,
  keepApplied,
  readApplied,
  readState,
} from "./component-state.ts";
import { findUnrecorded, forgetMade, noteMade, recordUnrecorded } from "./made-resources.ts";
import { PlanDocument, summariseDrift, summarisePlan } from "./plan-summary.ts";
import { withStateLock } from "./state-lock.ts";
import { findTool, type Tool, ToolName } from "./tool.ts";
import { type Command, openWorkspace, type Workspace } from "./workspace.ts";

const Config = z.strictObject({
  tool: z
    .enum(["auto", ...ToolName.options])
    .default("auto")
    .describe(
      "The program that does the work; auto builds with terraform, else tofu, and stays with it.",
    ),
  variables: z
    .record(z.string(), z.unknown())
    .default({})
    .describe("Values for the module's variables, by name."),
  parallelism: z
    .int()
    .positive()
    .max(256)
    .optional()
    .describe("How many resources are worked on at once; the tool's own default is 10."),
  platforms: z
    .array(Platform)
    .min(1)
    .optional()
    .describe(
      "The platforms that installs run on, as linux_amd64; the builder's own if not given.",
    ),
  providersFrom: z
    .string()
    .optional()
    .describe("A directory in the source with providers, laid out as a filesystem mirror."),
  fetchProviders: z
    .boolean()
    .default(false)
    .describe(
      "Whether the build fetches locked providers that no mirror has from their registries.",
    ),
});
type Context = OperationContext<z.infer<typeof Config>>;

const Outputs = z.record(
  z.string(),
  z.object({ value: z.unknown(), sensitive: z.boolean().default(false) }),
);
const LogParameters = z.object({ tailLines: z.int().nonnegative().optional() });
const ApplyParameters = z.object({ planFile: z.string().optional() });

export const plugin = definePlugin({
  type: "terraform",
  description: "A Terraform module, applied by OpenTofu or Terraform inside the install",
  config: Config,
  outputs: "open",
  buildKeys: ["tool", "platforms", "providersFrom", "fetchProviders"],
  source: "required",
  tools: [...ToolName.options],
  // What was applied is kept beside the state, with its providers.
  artifactFor: { destroy: "ignored", status: "ignored", logs: "ignored" },
  // Never two at once on one state, and a plan is good for one apply; the state lock sees to both.
  effects: { apply: "fenced", destroy: "fenced" },

  async build(context) {
    const { tool: wish, platforms, providersFrom, fetchProviders } = context.config;
    const tool = await findTool(context, { wish });
    await refuseEmpty(context.files);
    const machineConfig = process.env.TF_CLI_CONFIG_FILE;
    return buildModule({
      context,
      tool,
      platforms,
      providersFrom,
      fetchProviders,
      machineConfig,
    });
  },

  plan: (context) =>
    onState(context, "plan", async ({ tool, open }) => {
      await refuseEmpty(context.files);
      const workspace = await open(await wanted(context, tool));
      return makePlan(context, workspace);
    }),

  apply: (context) =>
    onState(context, "apply", async ({ tool, state, open }) => {
      const { planFile } = ApplyParameters.parse(context.parameters);
      const applied = await wanted(context, tool);
      const workspace = await open(applied);
      const file = planFile ?? (await makePlan(context, workspace)).file;

      await backUpState(state, new Date());
      await keepApplied(state, { ...applied, isComplete: false });
      await workspace.act("apply", ["-backup=-", file]);
      await forgetMade(state);
      const outputs = Outputs.parse(await workspace.ask(["output", "-json"]));
      await keepApplied(state, { ...applied, isComplete: true });
      for (const [name, { value, sensitive }] of Object.entries(outputs)) {
        context.output(name, value, { sensitive });
      }
    }),

  destroy: (context) =>
    onState(context, "destroy", async ({ tool, state, open }) => {
      const facts = await readState(state);
      if (!facts || facts.resources.length === 0) {
        context.log("nothing is there to destroy");
      } else {
        // With what it was made from, where that is known, and not with what is wanted today.
        const workspace = await open((await readApplied(state)) ?? (await wanted(context, tool)));
        await backUpState(state, new Date());
        await workspace.act("destroy", [
          "-auto-approve",
          "-backup=-",
          ...workspace.variableArguments,
        ]);
      }
      await forgetState(state);
      context.log("removed the state and the module kept beside it");
    }),

  async status(context) {
    const state = componentState(context.stateDirectory);
    const facts = await readState(state);
    const applied = await readApplied(state);
    if (applied?.isComplete === false) {
      return { health: "degraded", because: "the last apply did not finish" };
    }
    if (!facts || !applied) return { health: "missing", because: "it was never applied here" };
    const tool = await findTool(context, { wish: context.config.tool, wrote: applied.tool });
    const workspace = await openWorkspace({
      ...applied,
      context,
      tool,
      stateFile: state.stateFile,
      record: () => undefined,
      ...limits(context),
    });
    const summary = await findDrift(workspace);
    return summary === undefined
      ? {
          health: "healthy",
          because: "as it was applied",
          drift: { found: false, summary: "none" },
        }
      : { health: "degraded", because: summary, drift: { found: true, summary } };
  },

  async logs(context) {
    const { tailLines } = LogParameters.parse(context.parameters);
    const { logFile } = componentState(context.stateDirectory);
    const text = await readFile(logFile, "utf8").catch(() => "");
    const lines = text.split("\n").filter((line) => line !== "");
    const shown =
      tailLines === undefined ? lines : lines.slice(Math.max(0, lines.length - tailLines));
    for (const line of shown) context.log(line);
  },
});

interface StateWork {
  readonly tool: Tool;
  readonly state: ComponentState;
  /** An initialised workspace on the component's state. */
  readonly open: (module: Pick<Applied, "files" | "variables">) => Promise<Workspace>;
}

/** Does something with the state as its only user, and keeps what was said for `logs`. */
async function onState<Result>(
  context: Context,
  operation: Command,
  work: (given: StateWork) => Promise<Result>,
): Promise<Result> {
  const state = componentState(context.stateDirectory);
  const { job, attempt } = context;
  return withStateLock(
    { state, job, attempt, log: (text) => context.log(text, "warn") },
    async (lock) => {
      const applied = await readApplied(state);
      const facts = await readState(state);
      // A destroy is of what was applied, whatever was built since.
      const record = operation === "destroy" ? undefined : await readBuildRecord(context.files);
      const tool = await findTool(context, {
        wish: context.config.tool,
        wrote: applied?.tool,
        built: record?.tool,
      });
      writeFileSync(state.logFile, `${operation} with ${tool.name} ${tool.version}\n`, {
        mode: 0o600,
      });

      const open = async (module: Pick<Applied, "files" | "variables">) => {
        const workspace = await openWorkspace({
          ...module,
          context,
          tool,
          stateFile: state.stateFile,
          onStart: (pid) => lock.adopt(pid),
          record: (text) => appendFileSync(state.logFile, text),
          onMade: (resource) => noteMade(state, resource),
          ...limits(context),
        });
        await workspace.init();
        return workspace;
      };
      const unrecorded = await findUnrecorded(state, facts);
      if (unrecorded.length > 0 && applied) {
        await recordUnrecorded(await open(applied), unrecorded, (text) =>
          context.log(text, "warn"),
        );
      }
      await forgetMade(state);
      return work({ tool, state, open });
    },
  );
}

async function makePlan(context: Context, workspace: Workspace) {
  const file = join(context.workDirectory, "plan.tfplan");
  await rm(file, { force: true });
  await workspace.act("plan", [`-out=${file}`, ...workspace.variableArguments]);
  const plan = PlanDocument.parse(await workspace.ask(["show", "-json", file]));
  return { file, ...summarisePlan(plan) };
}

/** Compares the world with the state and changes neither; takes no lock, so it disturbs no job. */
async function findDrift(workspace: Workspace): Promise<string | undefined> {
  await workspace.init();
  const file = join(workspace.directory, "..", "drift.tfplan");
  const args = ["-refresh-only", "-lock=false", `-out=${file}`, ...workspace.variableArguments];
  await workspace.act("plan", args);
  return summariseDrift(PlanDocument.parse(await workspace.ask(["show", "-json", file])));
}

async function wanted({ files, config }: Context, tool: Tool): Promise<Applied> {
  await refuseEmpty(files);
  const { variables } = config;
  return { files, variables, tool: tool.name, version: tool.version, isComplete: false };
}

function limits({ config }: Context): { parallelism?: number } {
  return config.parallelism === undefined ? {} : { parallelism: config.parallelism };
}

/** An empty directory is a valid module to the tool, and an apply of it destroys everything. */
async function refuseEmpty(files: string): Promise<void> {
  const names = await readdir(files).catch(() => []);
  if (names.some((name) => /\.(tf|tofu)(\.json)?$/.test(name))) return;
  throw new Failure("invalid", "the source has no .tf file at its top");
}
