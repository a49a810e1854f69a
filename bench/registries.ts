// Registries for a run: `distribution`, the reference implementation, as neutral ground, and ours.
// Each is a process of its own with an empty directory, on loopback, gone when it is closed.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { findProgram } from "./programs.ts";

export interface BenchRegistry extends AsyncDisposable {
  readonly host: string;
  readonly url: string;
}

export interface Certificate {
  readonly certificate: string;
  readonly key: string;
}

const ROOT = join(import.meta.dirname, "..");

export async function makeCertificate(directory: string): Promise<Certificate> {
  const certificate = join(directory, "certificate.pem");
  const key = join(directory, "key.pem");
  const subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"];
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const files = ["-keyout", key, "-out", certificate, "-days", "2"];
  execFileSync("openssl", ["req", "-x509", ...kind, ...subject, ...files], { stdio: "ignore" });
  return { certificate, key };
}

export async function startDistribution(
  directory: string,
  certificate?: Certificate,
): Promise<BenchRegistry> {
  const program = findProgram("registry");
  if (!program) throw new Error("distribution's registry is not here; npm run test:e2e fetches it");
  const own = await mkdtemp(join(directory, "distribution-"));
  const host = `127.0.0.1:${await freePort()}`;
  const tls = certificate && {
    tls: { certificate: certificate.certificate, key: certificate.key },
  };
  const config = {
    version: 0.1,
    log: { level: "error", accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(own, "data") }, delete: { enabled: true } },
    http: { addr: host, ...tls },
  };
  const file = join(own, "config.yml");
  // JSON is YAML.
  await writeFile(file, JSON.stringify(config));
  const child = spawn(program, ["serve", file], {
    stdio: "ignore",
    env: { OTEL_TRACES_EXPORTER: "none" },
  });
  await untilListening(host, child);
  return running(child, own, host, certificate ? "https" : "http");
}

export async function startOurs(directory: string): Promise<BenchRegistry> {
  const own = await mkdtemp(join(directory, "ours-"));
  const ready = join(own, "ready");
  await mkdir(join(own, "data"));
  const program = join(ROOT, "packages/oci/src/programs/registry-main.ts");
  const address = ["--address", "127.0.0.1:0", "--ready-file", ready];
  const args = [program, "--directory", join(own, "data"), "--anonymous", ...address];
  const child = spawn(process.execPath, args, { stdio: "ignore" });
  for (let tries = 0; tries < 400; tries++) {
    if (child.exitCode !== null) throw new Error("our registry did not start");
    const url = await readFile(ready, "utf8").catch(() => "");
    if (url !== "") return running(child, own, new URL(url.trim()).host, "http");
    await sleep(25);
  }
  throw new Error("our registry did not start in time");
}

function running(
  child: ChildProcess,
  directory: string,
  host: string,
  scheme: string,
): BenchRegistry {
  return {
    host,
    url: `${scheme}://${host}`,
    async [Symbol.asyncDispose]() {
      const ended = child.exitCode === null ? once(child, "exit") : undefined;
      child.kill("SIGKILL");
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

async function untilListening(host: string, child: ChildProcess): Promise<void> {
  const { connect } = await import("node:net");
  for (let tries = 0; tries < 400; tries++) {
    if (child.exitCode !== null) throw new Error(`the registry at ${host} did not start`);
    const isUp = await new Promise<boolean>((resolve) => {
      const socket = connect(Number(host.split(":")[1]), "127.0.0.1");
      socket.once("connect", () => resolve(socket.destroy() !== undefined));
      socket.once("error", () => resolve(false));
    });
    if (isUp) return;
    await sleep(25);
  }
  throw new Error(`the registry at ${host} did not start in time`);
}
