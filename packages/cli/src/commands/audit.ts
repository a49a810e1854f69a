import { resolve } from "node:path";
import type { AuditView } from "@exclave/api";
import { createRecordVerifier, Instant, type RecordCheck } from "@exclave/core";
import { verifySignature, writeDurably } from "@exclave/machine";
import type { Command } from "commander";
import { z } from "zod";
import { type AgentSightings, askAgents } from "../audit/ask-agents.ts";
import { fetchRecord, newestRows } from "../audit/fetch-record.ts";
import { exportText, readCheckpoints, readExport } from "../audit/record-files.ts";
import { table, time } from "../output/output.ts";
import { count } from "../program/arguments.ts";
import { type Cli, handler, type Invocation } from "../program/cli.ts";
import { CliProblem } from "../program/problem.ts";

export function addAuditCommands(program: Command, invocation: Invocation): void {
  const audit = program.command("audit").description("the record of everything that was done");

  audit
    .command("list")
    .alias("ls")
    .description("list the newest rows of the record")
    .option("--limit <count>", "how many", count, 200)
    .option("--subject <subject>", "only what is about this install, job, release or agent")
    .action(
      handler(
        invocation,
        z.object({ limit: z.int(), subject: z.string().optional() }),
        async ({ cli, options }) => {
          printRows(cli, await newestRows(await cli.connect(), options));
        },
      ),
    );

  audit
    .command("verify")
    .description(
      "check the whole record on this machine: its hash chain, its signature, what agents saw",
    )
    .option("--checkpoints <file...>", "what agents kept, from `exclave agent checkpoints`")
    .option(
      "--install <name>",
      "hold it against what this install's agent saw, instead of all agents",
    )
    .option("--file <file>", "an export, instead of the server's record; needs no connection")
    .action(
      handler(invocation, VerifyOptions, async ({ cli, options }) => {
        const { directory, now } = invocation;
        const { file, install } = options;
        if (file !== undefined && install !== undefined) {
          throw new CliProblem(
            "usage",
            "--file needs no server, so no agent is asked: leave out --install",
          );
        }
        const client = file === undefined ? await cli.connect() : undefined;
        const seen = client ? await askAgents(client, install) : NOBODY_ASKED;
        const { pages, checkpoint, trust } = client
          ? await fetchRecord(client)
          : await readExport(resolve(directory, file ?? ""));
        const kept = await Promise.all(
          options.checkpoints.map((file) => readCheckpoints(resolve(directory, file))),
        );
        const verifier = createRecordVerifier({
          trust,
          checkpoints: [checkpoint, ...seen.checkpoints, ...kept.flat()],
          now: Instant.parse(now()),
          verify: verifySignature,
        });
        for await (const records of pages) {
          if (!verifier.add(records)) break;
        }
        printVerdict(cli, verifier.verdict(), seen.agents);
      }),
    );

  audit
    .command("export")
    .description("write the record with its signature, for `audit verify --file` anywhere")
    .argument("<file>")
    .action(
      handler(invocation, z.object({}), async ({ cli }, file: string) => {
        const record = await fetchRecord(await cli.connect());
        const path = resolve(invocation.directory, file);
        await writeDurably(path, exportText(record));
        const { rows } = record;
        cli.print({
          value: { file: path, rows },
          text: () => `wrote ${rows} rows to ${path}`,
          names: () => [path],
        });
      }),
    );
}

const NOBODY_ASKED: AgentSightings = { agents: 0, checkpoints: [] };

const VerifyOptions = z.object({
  install: z.string().optional(),
  checkpoints: z.array(z.string()).default([]),
  file: z.string().optional(),
});

function printVerdict(cli: Cli, verdict: RecordCheck, agents: number): void {
  if (verdict.kind === "broken") {
    const { kind: _, ...broken } = verdict;
    cli.print({ value: { ok: false, ...broken }, text: () => "", names: () => [] });
    const place = verdict.seq === undefined ? "broken" : `broken at row ${verdict.seq}`;
    throw new CliProblem("failed", `the record is ${place}: ${verdict.because}`, {
      hint: "compare the database with a backup taken earlier, and with what agents kept",
    });
  }
  const { size, head, serverId, checkpoints, setBacks } = verdict;
  const lost = setBacks.map(
    ({ keptSize, at }) =>
      `rows after ${keptSize} were lost when the server was restored, declared ${time(at)}`,
  );
  cli.print({
    value: { ok: true, size, head, serverId, checkpoints, agents, setBacks },
    text: () =>
      [
        `the record is whole: ${size} rows, head ${head}`,
        `it is that of server ${serverId} and passes through ${checkpoints} signed checkpoints`,
        `what ${agents} agents saw of it, as the server passes it on, is among them`,
        ...lost,
      ].join("\n"),
    names: () => [head],
  });
}

function printRows(cli: Cli, rows: readonly AuditView[]): void {
  cli.print({
    value: rows,
    text: () =>
      table(
        rows,
        [
          { header: "SEQ", cell: ({ seq }) => `${seq}` },
          { header: "AT", cell: ({ at }) => time(at) },
          { header: "ACTOR", cell: ({ actor }) => actor },
          { header: "ACTION", cell: ({ action }) => action },
          { header: "SUBJECT", cell: ({ subject }) => subject },
          { header: "DETAILS", cell: ({ details }) => brief(details) },
        ],
        "nothing is on record",
      ),
    names: () => rows.map(({ seq }) => `${seq}`),
  });
}

function brief(details: Readonly<Record<string, unknown>>): string {
  const text = Object.entries(details)
    .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}
