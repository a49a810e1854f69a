import { resolve } from "node:path";
import { type AgentView, createJoin, listAgents, revokeAgent } from "@exclave/api";
import { writeDurably } from "@exclave/machine";
import { Argument, type Command } from "commander";
import { z } from "zod";
import { listAll } from "../connection/pages.ts";
import { table, time } from "../output/output.ts";
import { handler, type Invocation, toneOf } from "../program/cli.ts";
import { confirmByName } from "../program/confirm.ts";
import { plainEnvironment, programOf, runProgram } from "../program/package-program.ts";
import { CliProblem, ExitWith } from "../program/problem.ts";

type VendorKind = "build" | "setup";

const JoinOptions = z.object({ out: z.string().optional() });

const RunOptions = z.object({
  home: z.string(),
  joinFile: z.string().optional(),
  images: z.string().optional(),
});

const RevokeOptions = z.object({ because: z.string().optional(), yes: z.boolean().default(false) });

export function addAgentCommands(program: Command, invocation: Invocation): void {
  const agent = program.command("agent").alias("agents").description("the agents that run jobs");

  agent
    .command("list")
    .alias("ls")
    .description("list agents and whether they are connected")
    .action(
      handler(invocation, z.object({}), async ({ cli }) => {
        const agents = await listAll<AgentView>(await cli.connect(), listAgents);
        cli.print({
          value: agents,
          text: () =>
            table(
              agents,
              [
                { header: "ID", cell: ({ id }) => id },
                { header: "KIND", cell: ({ kind }) => kind },
                { header: "FOR", cell: ({ install, audience }) => install ?? audience },
                {
                  header: "STATUS",
                  cell: (view) => cli.paint(toneOf(stateOf(view)), stateOf(view)),
                },
                { header: "SINCE", cell: ({ since }) => time(since) },
                { header: "JOBS", cell: ({ openJobs }) => `${openJobs}` },
                { header: "RUNTIME", cell: ({ runtime }) => runtime },
                { header: "VERSION", cell: ({ version }) => version },
              ],
              "no agent has joined yet",
            ),
          names: () => agents.map(({ id }) => id),
        });
      }),
    );

  agent
    .command("revoke")
    .description("take an agent's key out of use: its connection ends, and it has to join anew")
    .argument("<agent>", "its id, the name of its install, or build or setup")
    .option("--because <text>", "why, for the record")
    .option("--yes", "without asking")
    .action(
      handler(invocation, RevokeOptions, async ({ cli, options }, given: string) => {
        const client = await cli.connect();
        const found = findAgent(await listAll<AgentView>(client, listAgents), given);
        const name = found.install ?? found.kind;
        if (!options.yes) await confirmByName(cli, name, revokeWarning(found));
        const { because } = options;
        const body = because === undefined ? {} : { because };
        const revoked = await client.call(revokeAgent, { params: { agent: found.id }, body });
        cli.print({
          value: revoked,
          text: () => `agent ${revoked.id} of ${name} is revoked`,
          names: () => [revoked.id],
        });
      }),
    );

  addVendorAgents(agent, invocation);

  agent
    .command("checkpoints")
    .description("print what an agent on this machine saw of the server's record, as it was signed")
    .requiredOption("--home <directory>", "the agent's home")
    .action(
      handler(invocation, z.object({ home: z.string() }), async ({ options }) => {
        const code = await runProgram(invocation, {
          program: programOf("@exclave/agent"),
          args: ["checkpoints", "--home", options.home],
          environment: plainEnvironment(invocation.environment),
        });
        if (code !== 0) throw new ExitWith(code);
      }),
    );
}

/** The vendor's own two, where `up` does not run them: a build agent and a setup agent. */
function addVendorAgents(agent: Command, invocation: Invocation): void {
  agent
    .command("join")
    .description(
      "make the single-use string with which a build or setup agent joins; keep it secret",
    )
    .addArgument(kindArgument())
    .option("--out <file>", "write it there, for its owner's eyes alone, instead of to stdout")
    .action(
      handler(invocation, JoinOptions, async ({ cli, options }, kind: VendorKind) => {
        const client = await cli.connect();
        const made = await client.call(createJoin, { body: { kind } });
        const { joinString, expiresAt } = made;
        cli.say(`it works once, until ${time(expiresAt)}`);
        if (options.out === undefined) {
          return cli.print({ value: made, text: () => joinString, names: () => [joinString] });
        }
        await writeDurably(resolve(invocation.directory, options.out), `${joinString}\n`);
        cli.print({
          value: { expiresAt, file: options.out },
          text: () => `written to ${options.out}`,
          names: () => [],
        });
      }),
    );

  agent
    .command("run")
    .description("run a build or setup agent in the foreground")
    .addArgument(kindArgument())
    .requiredOption("--home <directory>", "where it keeps its identity, its journal and its work")
    .option(
      "--join-file <file>",
      "what `agent join` made; needed once, and removed when it is spent",
    )
    .option("--images <directory>", "a layout of images to publish; for a build agent")
    .action(
      handler(invocation, RunOptions, async ({ options }, kind: VendorKind) => {
        const { home, joinFile, images } = options;
        const given = { "--home": home, "--join-file": joinFile, "--images": images };
        const args = Object.entries(given).flatMap(([name, value]) =>
          value === undefined ? [] : [name, value],
        );
        const code = await runProgram(invocation, {
          program: programOf("@exclave/agent"),
          args: [kind, ...args],
          environment: plainEnvironment(invocation.environment),
        });
        if (code !== 0) throw new ExitWith(code);
      }),
    );
}

function kindArgument(): Argument {
  return new Argument("<kind>", "build or setup").choices(["build", "setup"]);
}

function stateOf({ status, revokedAt }: AgentView): string {
  return revokedAt ? "revoked" : status;
}

function findAgent(agents: readonly AgentView[], given: string): AgentView {
  const found = agents.find(({ id, install, kind }) => id === given || (install ?? kind) === given);
  if (found) return found;
  throw new CliProblem("notFound", `there is no agent ${given}`, {
    hint: "`exclave agent list` shows what there is",
  });
}

function revokeWarning({ id, install }: AgentView): string {
  const back =
    install === null
      ? "it comes back by a join string made later"
      : `\`exclave install setup ${install}\` brings it back with a new key`;
  return `agent ${id} is sent away at once and nothing it says counts; ${back}`;
}
