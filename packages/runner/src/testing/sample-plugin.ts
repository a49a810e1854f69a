// A plugin for the runner's own tests: small, real, and able to go wrong in every way that matters.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { definePlugin, Failure, z } from "@exclave/plugin-sdk";

/** Says how many times it was told to stop: a second signal would mean "now, whatever is lost". */
const COUNT_STOPS = `
  n=0
  trap 'n=$((n+1))' TERM
  echo ready
  while [ "$n" -eq 0 ]; do sleep 0.05; done
  sleep 0.3
  echo "told to stop: $n"
`;

export const plugin = definePlugin({
  type: "sample",
  description: "for tests",
  config: z.strictObject({
    mode: z.enum(["works", "throws", "fails", "waits"]).default("works"),
    message: z.string().default("hello"),
  }),
  outputs: "open",
  artifactFor: { status: "present" },

  async build({ files, workDirectory }) {
    const text = await readFile(join(files, "input.txt"), "utf8");
    await writeFile(join(files, "built.txt"), text.toUpperCase());
    await writeFile(join(workDirectory, "scratch"), "not part of the artifact");
    return { kind: "files", directory: files };
  },

  async plan(context) {
    const file = await context.writeFile("the-plan", `say ${context.config.message}`);
    return { file, risk: "change", summary: "1 to say" };
  },

  async apply(context) {
    const { mode, message } = context.config;
    if (mode === "throws") throw new TypeError("cannot read properties of undefined");
    if (mode === "fails") throw new Failure("conflict", "somebody else is at work");
    if (mode === "waits") {
      await context.run("sh", ["-c", COUNT_STOPS]);
    }
    const { planFile } = context.parameters;
    if (typeof planFile === "string") context.output("plan", await readFile(planFile, "utf8"));
    const file = await readFile(join(context.files, "built.txt"), "utf8").catch(() => "no file");
    context.output("file", file);
    context.log(`it says ${message}`);
    context.output("message", message);
  },

  async status({ artifact }) {
    return artifact?.present
      ? { health: "healthy", because: "the artifact is there" }
      : { health: "missing", because: "the artifact is gone" };
  },

  async exec() {
    return { exitCode: 9 };
  },
});
