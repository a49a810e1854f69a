// The signer's program: holds the private keys of one server and signs what it is asked to.
//
//   signer --keys DIR                     speaks on stdin and stdout; ends when stdin does
//   signer --keys DIR --listen SOCKET     speaks on a Unix socket, for EXCLAVE_SIGNER_SOCKET

import { rm } from "node:fs/promises";
import { createServer } from "node:net";
import { parseArgs } from "node:util";
import { asFailure, Failure } from "@exclave/core";
import { openKeyDirectory } from "./key-directory.ts";
import { serveSigner } from "./serve-signer.ts";
import type { Signer } from "./signer.ts";

async function main(): Promise<void> {
  const text = { type: "string" } as const;
  const { keys, listen } = parseArgs({ options: { keys: text, listen: text } }).values;
  if (keys === undefined) throw new Failure("invalid", "say where the keys are: --keys DIR");
  process.umask(0o077);
  const signer = await openKeyDirectory(keys);
  if (listen !== undefined) return listenOn(signer, listen);

  // A terminal's Ctrl-C reaches the whole group: the server still signs while it stops, and this
  // ends with the server, however that ends.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => undefined);
  await serveSigner(signer, { input: process.stdin, output: process.stdout });
}

async function listenOn(signer: Signer, path: string): Promise<void> {
  await rm(path, { force: true });
  // Whoever may connect may sign: the socket is its owner's and the group's.
  process.umask(0o117);
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    serveSigner(signer, { input: socket, output: socket }).catch(() => socket.destroy());
  });
  server.maxConnections = 16;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, resolve);
  });
  process.umask(0o077);
  process.stdout.write(`${JSON.stringify({ ready: true, socket: path })}\n`);
}

main().catch((reason: unknown) => {
  const { code, message } = asFailure(reason);
  process.stderr.write(`signer: ${message} (${code})\n`);
  process.exitCode = 1;
});
