// A real S3-compatible store on loopback, over a directory of its own, with keys of its own.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { S3Settings } from "../s3/s3-settings.ts";

export interface Versitygw {
  readonly settings: S3Settings & { readonly endpoint: URL };
  /** What a server is given to find it. */
  readonly environment: Readonly<Record<string, string>>;
  /** Ends the program; what it keeps stays, and `start` brings it back at the same address. */
  readonly stop: () => Promise<void>;
  readonly start: () => Promise<void>;
  readonly close: () => Promise<void>;
}

const TRIES = 200;

export function hasVersitygw(): boolean {
  const places = (process.env["PATH"] ?? "").split(delimiter);
  return places.some((directory) => existsSync(join(directory, "versitygw")));
}

export async function startVersitygw(bucket = "tenant"): Promise<Versitygw> {
  const directory = await mkdtemp(join(tmpdir(), "exclave-versitygw-"));
  const [data, meta] = [join(directory, "data"), join(directory, "meta")];
  await mkdir(join(data, bucket), { recursive: true });
  await mkdir(meta);
  const credentials = {
    accessKeyId: randomBytes(10).toString("hex"),
    secretAccessKey: randomBytes(20).toString("hex"),
  };
  const port = await freePort();
  const endpoint = new URL(`http://127.0.0.1:${port}`);
  let child: ReturnType<typeof run> | undefined;
  const running: Versitygw = {
    settings: { bucket, prefix: "", region: "us-east-1", endpoint, credentials },
    environment: {
      EXCLAVE_OBJECT_STORE: `s3://${bucket}/content?endpoint=${endpoint.origin}&region=us-east-1`,
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    },
    async stop() {
      child?.kill("SIGKILL");
      await child?.ended;
      child = undefined;
    },
    async start() {
      child = run();
      await answers(endpoint);
    },
    async close() {
      await running.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
  await running.start();
  return running;

  function run() {
    const program = spawn(
      "versitygw",
      ["--quiet", "--port", `127.0.0.1:${port}`, "posix", "--sidecar", meta, data],
      {
        stdio: "ignore",
        env: {
          PATH: process.env["PATH"],
          ROOT_ACCESS_KEY: credentials.accessKeyId,
          ROOT_SECRET_KEY: credentials.secretAccessKey,
        },
      },
    );
    const ended = new Promise<void>((resolve) => program.once("close", () => resolve()));
    return { kill: (signal: NodeJS.Signals) => program.kill(signal), ended };
  }
}

async function answers(endpoint: URL): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    try {
      await fetch(endpoint);
      return;
    } catch {
      await sleep(50);
    }
  }
  throw new Error("versitygw does not answer");
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
