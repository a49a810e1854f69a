// The two ways to a signer: a child process that lives and dies with this one, and a socket of one
// that runs elsewhere.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Signer } from "./signer.ts";
import { createSignerClient } from "./signer-client.ts";
import type { SignerConnectionOptions, SignerStream } from "./signer-connection.ts";

type Options = Omit<SignerConnectionOptions, "name" | "open">;

/** Starts the signer's program on these keys, and again whenever it dies. */
export function startSignerProcess(
  keys: string,
  options: Options & { readonly onStarted?: (pid: number) => void },
): Signer {
  return createSignerClient({
    ...options,
    name: "the signer",
    async open() {
      const child = spawn(process.execPath, [programPath(), "--keys", keys], {
        stdio: ["pipe", "pipe", "inherit"],
        env: {},
      });
      await once(child, "spawn");
      if (child.pid !== undefined) options.onStarted?.(child.pid);
      return streamOf(child);
    },
  });
}

/** Speaks to a signer that somebody else runs. */
export function connectSigner(path: string, options: Options): Signer {
  return createSignerClient({
    ...options,
    name: `the signer at ${path}`,
    async open() {
      const socket = connect(path);
      await once(socket, "connect");
      const closed = once(socket, "close").then(
        () => "it closed the connection",
        (reason: Error) => reason.message,
      );
      return { input: socket, output: socket, closed, close: () => socket.destroy() };
    },
  });
}

function streamOf(child: ChildProcess): SignerStream {
  const { stdin, stdout } = child;
  if (!stdin || !stdout) throw new Error("a signer without pipes cannot be spoken to");
  const closed = once(child, "exit").then(([code, signal]) =>
    signal ? `it was ended by ${String(signal)}` : `it ended with ${String(code)}`,
  );
  return {
    input: stdin,
    output: stdout,
    closed,
    close() {
      stdin.end();
      child.kill("SIGKILL");
    },
  };
}

/** `.ts` in a clone, `.js` when built. */
function programPath(): string {
  return fileURLToPath(new URL(`./main${extname(import.meta.filename)}`, import.meta.url));
}
