// Small stand-ins for the programs of an install, and a place to set one up in. The real agent and
// registry are tried together with the sandbox in tests/e2e; here it is about who keeps them up.

import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext as NodeTest } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  createTestContext,
  type TestContextOptions,
  type TestRun,
} from "@exclave/plugin-sdk/testing";
import { type Home, installHome } from "../home.ts";
import { createLocalSandbox } from "../plugin.ts";
import { stopInstall } from "../stop-install.ts";

/** Answers like a registry that wants a token; an import leaves its arguments to be looked at. */
const REGISTRY = `
import { createServer } from "node:http";
import { writeFileSync } from "node:fs";
const argument = (name) => process.argv[process.argv.indexOf(name) + 1];
if (process.argv.includes("--import-layout")) {
  writeFileSync(argument("--directory") + "/imported", process.argv.slice(2).join(" "), { flag: "a" });
} else {
  const [host, port] = argument("--address").split(":");
  createServer((_, response) => response.writeHead(401).end()).listen(Number(port), host);
  process.on("SIGTERM", () => process.exit(0));
}
`;

/** Joins with the string it finds, counts its starts, and stays. */
const AGENT = `
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
const home = process.argv[process.argv.indexOf("--home") + 1];
appendFileSync(home + "/agent/starts", JSON.stringify({ pid: process.pid, environment: process.env }) + "\\n");
if (existsSync(home + "/join")) {
  writeFileSync(home + "/agent/identity.json", JSON.stringify({ joinedWith: readFileSync(home + "/join", "utf8") }));
  writeFileSync(home + "/agent/trust.json", "{}");
  rmSync(home + "/join");
}
process.on("SIGTERM", () => process.exit(0));
setInterval(() => undefined, 60_000);
`;

const REFUSED_AGENT = `process.stderr.write("the join string was used before\\n"); process.exit(1);`;

export interface SandboxUnderTest {
  readonly home: Home;
  readonly programs: string;
  readonly run: (
    operation: "apply" | "destroy" | "status",
    options?: TestContextOptions,
  ) => Promise<TestRun>;
  /** Replaces a program the sandbox brings along. */
  readonly bring: (name: "agent.mjs" | "registry.mjs", text: string) => Promise<void>;
}

export const STAND_INS = { AGENT, REGISTRY, REFUSED_AGENT };

export async function sandboxUnderTest(
  t: NodeTest,
  { readyWithinMs = 20_000 }: { readyWithinMs?: number } = {},
): Promise<SandboxUnderTest> {
  const directory = await mkdtemp(join(tmpdir(), "exclave-local-"));
  const home = installHome(join(directory, "acme"));
  t.after(async () => {
    await stopInstall({ home, log: () => undefined, graceMs: 500 });
    await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  });
  const programs = join(directory, "image");
  await mkdir(programs);
  const bring = (name: string, text: string) => writeFile(join(programs, name), text);
  await bring("agent.mjs", AGENT);
  await bring("registry.mjs", REGISTRY);
  await bring("keeper.mjs", "");
  const init = new URL("../init.ts", import.meta.url);
  await bring("init.mjs", `import ${JSON.stringify(init.href)};\n`);

  const plugin = createLocalSandbox({
    programs: { directory: programs, node: process.execPath },
    environment: { PATH: process.env["PATH"] ?? "", EXCLAVE_TOKEN: "of somebody else" },
    readyWithinMs,
  });
  const context = await createTestContext(plugin, {
    install: "acme",
    installId: "iacmeaaaaaaaaaaaa",
    config: { directory: home.directory },
    parameters: { joinString: "exclave-join-v1.once" },
    layout: join(directory, "layout"),
    artifact: { repository: "exclave/runner", digest: `sha256:${"a".repeat(64)}` },
  });
  t.after(() => rm(context.directory, { recursive: true, force: true }));
  return { home, programs, bring, run: (operation, options) => context.run(operation, options) };
}

/** Waits for something that another process is about to do; fails loudly when it never does. */
export async function eventually<Value>(
  what: string,
  look: () => Promise<Value | undefined>,
): Promise<Value> {
  const until = performance.now() + 20_000;
  for (;;) {
    const seen = await look();
    if (seen !== undefined) return seen;
    if (performance.now() >= until) throw new Error(`it never came: ${what}`);
    await sleep(30);
  }
}
