import { once } from "node:events";
import type { Command } from "commander";
import { z } from "zod";
import { portNumber } from "../program/arguments.ts";
import { handler, type Invocation } from "../program/cli.ts";
import { isAbort } from "../program/problem.ts";
import { runDemo } from "../up/demo.ts";
import { findPrograms } from "../up/programs.ts";
import { startUp } from "../up/run-up.ts";
import { provideDemoApp } from "../up/shipped.ts";

const Options = z.object({
  demo: z.boolean().default(false),
  port: z.int().optional(),
  tls: z.boolean().default(false),
  sandbox: z.string(),
  publicUrl: z.url().optional(),
});

export function addUpCommand(program: Command, invocation: Invocation): void {
  program
    .command("up")
    .description("run everything on this machine: server, build agent, setup agent, installs")
    .option("--demo", "release the demo app and create the install acme")
    .option("--sandbox <name>", "what the demo's install stands on: local, or podman", "local")
    .option("--port <port>", "the server's port, chosen at the first start", portNumber)
    .option(
      "--tls",
      "TLS by the server's own authority on this machine too, chosen at the first start",
    )
    .option(
      "--public-url <url>",
      "how agents reach the server, where a balancer stands before it and others on its database",
    )
    .action(
      handler(invocation, Options, async ({ cli, options }) => {
        const programs = await findPrograms(invocation.environment, cli.home);
        const display = cli.display();
        const up = await startUp(cli, {
          programs,
          port: options.port,
          tls: options.tls,
          wantsEngine: options.sandbox === "podman",
          publicUrl: options.publicUrl,
          say: (line) => display.note(line),
        });
        try {
          if (options.demo) {
            const app = await provideDemoApp(cli.home);
            await runDemo(cli, up, { app, sandbox: options.sandbox, display });
          }
          display.note("running; Ctrl-C ends everything");
          if (!invocation.signal.aborted) await once(invocation.signal, "abort");
        } catch (reason) {
          if (!isAbort(reason)) throw reason;
        } finally {
          display.end();
          display.note("stopping everything (Ctrl-C again to hurry)");
          await up.stop();
          display.note("stopped; `exclave up` resumes");
        }
      }),
    );
}
