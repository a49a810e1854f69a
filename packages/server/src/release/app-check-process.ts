// The program that checks apps: what somebody wrote may cost all of its time and memory, and no more. A thread would
// not do: one that runs out of memory can take the whole server with it.

import { readdirSync } from "node:fs";
import { setPriority } from "node:os";
import { type ParseAppOptions, parseApp } from "@exclave/core";

export interface AppCheck extends ParseAppOptions {
  readonly text: string;
}

/** Less urgent than anything that answers others. */
const NICE = 19;

yieldToOthers();
process.on("message", ({ text, ...options }: AppCheck) => {
  process.send?.(parseApp(text, options));
});
// Without the server there is nobody to check for.
process.on("disconnect", () => process.exit());
// From here on a check's time is its own.
process.send?.("ready");

/** On Linux each thread has a priority of its own; the garbage collector's count too. */
function yieldToOthers(): void {
  if (process.platform !== "linux") return setPriority(NICE);
  for (const thread of readdirSync("/proc/self/task")) setPriority(Number(thread), NICE);
}
