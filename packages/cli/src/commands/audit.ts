import { type AuditView, type Client, listAudit } from "@exclave/api";
import { AuditRecord, type ChainVerdict, verifyChain } from "@exclave/core";
import type { Command } from "commander";
import { z } from "zod";
import { count } from "../arguments.ts";
import { type Cli, handler, type World } from "../cli.ts";
import { table, time } from "../output.ts";
import { CliProblem } from "../problem.ts";

const PAGE = 1000;

export function addAuditCommands(program: Command, world: World): void {
  const audit = program.command("audit").description("the record of everything that was done");

  audit
    .command("list")
    .alias("ls")
    .description("list the newest rows of the record")
    .option("--limit <count>", "how many", count, 200)
    .option("--subject <subject>", "only what is about this install, job, release or agent")
    .action(
      handler(
        world,
        z.object({ limit: z.int(), subject: z.string().optional() }),
        async ({ cli, options }) => {
          const client = await cli.connect();
          const query = { newest: "true" as const, ...options };
          const { items } = await client.call(listAudit, { query });
          printRows(
            cli,
            items.toSorted((a, b) => a.seq - b.seq),
          );
        },
      ),
    );

  audit
    .command("verify")
    .description("fetch the whole record and check its hash chain on this machine")
    .action(
      handler(world, z.object({}), async ({ cli }) => {
        const { records, size, head } = await wholeRecord(await cli.connect());
        const verdict = judge(records, { size, head });
        if (verdict.kind === "broken") {
          cli.print({
            value: { ok: false, ...verdict },
            text: () => "",
            names: () => [],
          });
          throw new CliProblem(
            "failed",
            `the record is broken at row ${verdict.seq}: ${verdict.because}`,
            {
              hint: "rows before it are whole; compare the database with a backup taken earlier",
            },
          );
        }
        cli.print({
          value: { ok: true, size: verdict.size, head: verdict.head },
          text: () => `the record is whole: ${verdict.size} rows, head ${verdict.head}`,
          names: () => [verdict.head],
        });
      }),
    );
}

/** Whole in itself, and ending where the server says it ends. */
function judge(
  records: readonly AuditRecord[],
  { size, head }: { size: number; head: string },
): ChainVerdict {
  const verdict = verifyChain(records);
  if (verdict.kind === "broken") return verdict;
  if (verdict.size !== size || verdict.head !== head) {
    const because = `the server says ${size} rows ending in ${head}, and the rows end with ${verdict.head}`;
    return { kind: "broken", seq: verdict.size + 1, because };
  }
  return verdict;
}

/** All rows up to the size seen first: the record grows while it is read. */
async function wholeRecord(client: Client) {
  const records: AuditRecord[] = [];
  for (;;) {
    const after = records.at(-1)?.seq ?? 0;
    const page = await client.call(listAudit, { query: { limit: PAGE, after } });
    records.push(...page.items.map((row) => AuditRecord.parse(row)));
    if (page.items.length === 0 || records.length >= page.size) {
      return { records, size: page.size, head: page.head };
    }
  }
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
