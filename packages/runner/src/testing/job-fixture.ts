// A place to run jobs in: a registry, a server that hands out sources, and directories, all real and
// all gone after the test.

import { createHash } from "node:crypto";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { JobDocument, type JobLine, type ResultLine, writeTar } from "@exclave/core";
import { createRegistryClient, type RegistryClient, serveRegistry } from "@exclave/oci";
import { createLineWriter } from "../line-writer.ts";
import { runJob } from "../run-job.ts";

export const SAMPLE_PLUGIN = `export { plugin } from ${JSON.stringify(
  new URL("./sample-plugin.ts", import.meta.url).href,
)};`;

export interface JobFixture {
  readonly directory: string;
  readonly stateDirectory: string;
  readonly registryUrl: string;
  readonly registryDirectory: string;
  readonly registry: RegistryClient;
  /** Puts a file beside the runner of the jobs to come. */
  readonly addPluginFile: (name: string, content: string) => Promise<void>;
  readonly copyPlugin: (directory: string) => Promise<void>;
  readonly run: (document: Partial<JobDocument>, signal?: AbortSignal) => Promise<JobRun>;
}

export interface JobRun {
  readonly result: ResultLine;
  readonly lines: readonly JobLine[];
  /** Exactly what was written to stdout. */
  readonly text: string;
  readonly jobDirectory: string;
}

export async function createJobFixture(t: TestContext): Promise<JobFixture> {
  const directory = await mkdtemp(join(tmpdir(), "exclave-runner-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const registryDirectory = join(directory, "registry");
  const { url: registryUrl, registry } = await startRegistry(t, registryDirectory);
  const stateDirectory = join(directory, "state");
  const pluginDirectory = join(directory, "plugin");
  await mkdir(pluginDirectory);
  let jobs = 0;

  return {
    directory,
    stateDirectory,
    registryUrl,
    registryDirectory,
    registry,
    addPluginFile: (name, content) => writeFile(join(pluginDirectory, name), content),
    copyPlugin: (from) => cp(from, pluginDirectory, { recursive: true }),
    run,
  };

  async function run(
    document: Partial<JobDocument>,
    signal = new AbortController().signal,
  ): Promise<JobRun> {
    const jobDirectory = join(directory, `job-${++jobs}`);
    await mkdir(jobDirectory);
    let text = "";
    const lines: JobLine[] = [];
    const complete = jobDocument({ registry: { url: registryUrl }, ...document });
    const write = createLineWriter({
      secrets: complete.secrets,
      logBytesMax: complete.limits?.logBytesMax,
      out: (line) => {
        text += line;
        lines.push(JSON.parse(line));
      },
    });
    const result = await runJob({
      document: complete,
      jobDirectory,
      stateDirectory,
      runDirectory: join(directory, "run"),
      pluginDirectory,
      environment: { PATH: process.env.PATH ?? "" },
      signal,
      forwardStop: true,
      write,
    });
    write(result);
    return { result, lines, text, jobDirectory };
  }
}

export async function startRegistry(t: TestContext, directory: string) {
  const served = await serveRegistry({
    directory,
    host: "127.0.0.1",
    port: 0,
    auth: { kind: "anonymous" },
  });
  const registry = createRegistryClient({ url: served.url });
  t.after(async () => {
    registry.close();
    await served.close();
  });
  return { url: served.url, registry };
}

export function jobDocument(document: Partial<JobDocument>): JobDocument {
  return JobDocument.parse({
    version: 1,
    job: "jaaaaaaaaaaaaaaaa",
    attempt: 1,
    install: "acme",
    app: "shop",
    component: "web",
    type: "sample",
    operation: "apply",
    config: {},
    parameters: {},
    materials: [],
    secrets: [],
    deadlineAt: 4_102_444_800_000,
    ...document,
  });
}

/** Serves one source archive to whoever has the token, under a digest that may be a lie. */
export async function serveSource(t: TestContext, files: Record<string, string>) {
  const bytes = writeTar(
    Object.entries(files).map(([path, text]) => ({
      type: "file",
      path,
      mode: 0o644,
      bytes: new TextEncoder().encode(text),
    })),
  );
  const server = createServer((request, response) => {
    response.statusCode = request.headers.authorization === "Bearer source-token" ? 200 : 401;
    response.end(response.statusCode === 200 ? bytes : "");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
  return { url: `http://127.0.0.1:${port}/source`, token: "source-token", digest } as NonNullable<
    JobDocument["source"]
  >;
}
