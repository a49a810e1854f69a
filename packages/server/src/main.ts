// The server program: node main.ts --data DIR --address HOST:PORT [--public-url URL]
//   [--tls | --tls-certificate FILE --tls-key FILE [--tls-ca FILE] | --behind-tls-balancer] [--insecure-http]

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import {
  asFailure,
  createClock,
  Failure,
  INSECURE_HTTP_VARIABLE,
  TEST_CLOCK_VARIABLE,
  wantsInsecureHttp,
} from "@exclave/core";
import { useMachineCoders } from "@exclave/machine";
import { pino } from "pino";
import { readObjectStore } from "./content/read-object-store.ts";
import { readRetention } from "./retention/read-settings.ts";
import { type RunningServer, startServer } from "./server.ts";
import { connectSigner, startSignerProcess } from "./signer/open-signer.ts";
import { readTraceSettings } from "./traces/read-settings.ts";

const USAGE =
  "server --data DIR --address HOST:PORT [--public-url URL] [--tls | --tls-certificate FILE --tls-key FILE " +
  "[--tls-ca FILE] | --behind-tls-balancer] [--insecure-http]";

useMachineCoders();

const log = pino({ level: process.env["EXCLAVE_LOG_LEVEL"] ?? "info" }, pino.destination(2));

/** Not an argument: it may hold a password, and arguments are for everybody to see. */
const databaseUrl = process.env["EXCLAVE_DATABASE_URL"];

/** A signer that runs elsewhere, with a key service behind it perhaps. */
const socket = process.env["EXCLAVE_SIGNER_SOCKET"];

try {
  const asked = readArguments(process.argv.slice(2));
  const server = await startServer({
    ...asked,
    objects: readObjectStore(process.env, asked),
    ...(databaseUrl === undefined ? {} : { databaseUrl }),
    retention: readRetention(process.env),
    traces: readTraceSettings(process.env),
    log,
    now: createClock({
      machine: Date.now,
      directory: process.env[TEST_CLOCK_VARIABLE],
      program: "server",
      readFile: (path) => readFileSync(path, "utf8"),
    }),
    openSigner: (keys) =>
      socket === undefined ? startSignerProcess(keys, { log }) : connectSigner(socket, { log }),
  });
  stopOnSignal(server);
  const caFingerprint = server.context.caFingerprint();
  process.stdout.write(`${JSON.stringify({ ready: true, url: server.url, caFingerprint })}\n`);
  log.info({ url: server.url, caFingerprint }, "the server is listening");
} catch (reason) {
  const failure = asFailure(reason);
  if (failure.code === "bug") log.fatal({ reason }, "the server cannot start");
  // Whoever started it is told why, and whether another start could go better.
  const mayPass = failure.code === "unavailable";
  process.stdout.write(`${JSON.stringify({ ready: false, reason: failure.message, mayPass })}\n`);
  process.stderr.write(`server: ${failure.message}\n`);
  process.exitCode = failure.code === "invalid" || failure.code === "forbidden" ? 2 : 1;
}

function readArguments(args: string[]) {
  const values = parse(args);
  const { data, address, "public-url": publicUrl, "insecure-http": insecure } = values;
  const match = /^(.+):(\d{1,5})$/.exec(address ?? "");
  if (data === undefined || !match) throw new Failure("invalid", `usage: ${USAGE}`);
  const [, host = "", port = ""] = match;
  if (publicUrl !== undefined && !URL.canParse(publicUrl)) {
    throw new Failure("invalid", `${publicUrl} is not a URL`);
  }
  const reached = publicUrl?.replace(/\/+$/, "");
  const insecureHttp = insecure || wantsInsecureHttp(process.env[INSECURE_HTTP_VARIABLE]);
  const place = { data, host: host.replace(/^\[(.*)\]$/, "$1"), port: Number(port) };
  const tls = {
    isForced: values.tls,
    certificateFile: values["tls-certificate"],
    keyFile: values["tls-key"],
    caFile: values["tls-ca"],
    isBehindBalancer: values["behind-tls-balancer"],
  };
  return { ...place, insecureHttp, tls, ...(reached ? { publicUrl: reached } : {}) };
}

function parse(args: string[]) {
  try {
    const text = { type: "string" } as const;
    const flag = { type: "boolean", default: false } as const;
    return parseArgs({
      args,
      options: {
        data: text,
        address: text,
        "public-url": text,
        tls: flag,
        "tls-certificate": text,
        "tls-key": text,
        "tls-ca": text,
        "behind-tls-balancer": flag,
        "insecure-http": flag,
      },
    }).values;
  } catch (cause) {
    throw new Failure("invalid", `${(cause as Error).message}; usage: ${USAGE}`, { cause });
  }
}

function stopOnSignal(server: RunningServer): void {
  let isStopping = false;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      if (isStopping) return;
      isStopping = true;
      log.info({ signal }, "the server is stopping");
      server.close().then(
        () => process.exit(0),
        (reason: unknown) => {
          log.error({ reason }, "the server did not stop cleanly");
          process.exit(1);
        },
      );
    });
  }
}
