// Checks apps in a thread of its own. What somebody wrote may cost all of a thread's time and memory, and no more.

import { setPriority } from "node:os";
import { parentPort } from "node:worker_threads";
import { type ParseAppOptions, parseApp } from "@exclave/core";

export interface AppCheck extends ParseAppOptions {
  readonly text: string;
}

/** Less urgent than what answers others. Linux alone has a priority for each thread; elsewhere it is the process's. */
const NICE = 10;
if (process.platform === "linux") setPriority(NICE);

parentPort?.on("message", ({ text, ...options }: AppCheck) => {
  parentPort?.postMessage(parseApp(text, options));
});
// From here on a check's time is its own.
parentPort?.postMessage("ready");
