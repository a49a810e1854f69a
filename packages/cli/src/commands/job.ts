import { cancelJob, getJob, JobStatus, type JobView, listJobs } from "@exclave/api";
import { resourcesText } from "@exclave/core";
import { type Command, Option } from "commander";
import { z } from "zod";
import { listAll } from "../connection/pages.ts";
import { pairs, table, time } from "../output/output.ts";
import { count, durationOption } from "../program/arguments.ts";
import { type Cli, handler, type Invocation, toneOf } from "../program/cli.ts";
import { followToEnd, writeLog } from "../progress/follow-job.ts";

const ListOptions = z.object({
  install: z.string().optional(),
  component: z.string().optional(),
  state: JobStatus.optional(),
  release: z.string().optional(),
  limit: z.int(),
});

export function addJobCommands(program: Command, invocation: Invocation): void {
  const job = program
    .command("job")
    .alias("jobs")
    .description("operations, each its own container");

  job
    .command("list")
    .alias("ls")
    .description("list jobs, newest first")
    .option(
      "--install <name>",
      "only those about one install, by name or id (`build` and `setup`: the vendor's agents)",
    )
    .option("--component <name>", "only those of one component")
    .addOption(new Option("--state <state>", "only those in one state").choices(JobStatus.options))
    .option("--release <id>", "only those of one release")
    .option("--limit <count>", "how many", count, 200)
    .action(
      handler(invocation, ListOptions, async ({ cli, options: { limit, ...query } }) => {
        const jobs = await listAll<JobView>(await cli.connect(), listJobs, query, limit);
        printJobs(cli, jobs);
      }),
    );

  job
    .command("show")
    .description("show one job")
    .argument("<job>")
    .action(
      handler(invocation, z.object({}), async ({ cli }, id: string) => {
        const client = await cli.connect();
        printJob(cli, await client.call(getJob, { params: { job: id } }));
      }),
    );

  job
    .command("logs")
    .alias("log")
    .description("write a job's log to stdout")
    .argument("<job>")
    .option("-f, --follow", "go on until the job has ended")
    .option("--raw", "with its control sequences, also on a terminal")
    .action(
      handler(
        invocation,
        z.object({ follow: z.boolean().default(false) }),
        async ({ cli, options: { follow } }, id: string) => {
          const client = await cli.connect();
          await client.call(getJob, { params: { job: id } });
          if (follow) await followToEnd(cli, client, id);
          else await writeLog(cli, client, id);
        },
      ),
    );

  job
    .command("cancel")
    .description("ask a job to stop")
    .argument("<job>")
    .addOption(
      durationOption("--grace <duration>", "how long it may take to stop by itself", "10s"),
    )
    .action(
      handler(invocation, z.object({ grace: z.int() }), async ({ cli, options }, id: string) => {
        const client = await cli.connect();
        const body = { graceMs: options.grace };
        printJob(cli, await client.call(cancelJob, { params: { job: id }, body }));
      }),
    );
}

function printJobs(cli: Cli, jobs: readonly JobView[]): void {
  cli.print({
    value: jobs,
    text: () =>
      table(
        jobs,
        [
          { header: "ID", cell: ({ id }) => id },
          { header: "OPERATION", cell: ({ operation }) => operation },
          { header: "INSTALL", cell: ({ install }) => install },
          { header: "COMPONENT", cell: ({ component }) => component ?? "-" },
          { header: "STATE", cell: ({ state }) => cli.paint(toneOf(state), state) },
          { header: "ATTEMPT", cell: ({ attempt }) => `${attempt}` },
          { header: "CREATED", cell: ({ createdAt }) => time(createdAt) },
          { header: "BECAUSE", cell: ({ because }) => because },
        ],
        "there are no such jobs",
      ),
    names: () => jobs.map(({ id }) => id),
  });
}

export function printJob(cli: Cli, job: JobView): void {
  cli.print({
    value: job,
    text: () =>
      pairs([
        ["id", job.id],
        ["operation", job.operation],
        ["install", job.installId === null ? job.install : `${job.install} (${job.installId})`],
        ["component", job.component],
        ["state", cli.paint(toneOf(job.state), job.state)],
        ["attempt", `${job.attempt}`],
        [
          "silent since",
          job.unreachableSince === null
            ? null
            : `${time(job.unreachableSince)} (it may well be running)`,
        ],
        ["because", job.because],
        ["asked by", job.requestedBy],
        ["created", time(job.createdAt)],
        ["started", job.startedAt === null ? null : time(job.startedAt)],
        ["ended", job.endedAt === null ? null : time(job.endedAt)],
        ["failure", job.failure && `${job.failure.code}: ${job.failure.message}`],
        ["exit code", job.exitCode === null ? null : `${job.exitCode}`],
        ["plan", job.plan && `${job.plan.summary} (risk: ${job.plan.risk})`],
        ["resources", job.report && resourcesText(job.report)],
        ["progress", job.report?.progress?.message ?? null],
        ["log", `${job.logBytes} bytes${job.logComplete ? "" : ", not complete"}`],
        ["manifest", job.manifestDigest],
      ]),
    names: () => [job.id],
  });
}
