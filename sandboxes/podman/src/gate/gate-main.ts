// The program of the gate's container: the engine's socket on one side, one socket for the agent and one for its jobs
// on the other. It has no network and holds nothing.

import { readFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { Failure } from "@exclave/plugin-sdk";
import { listenOnSocket } from "@exclave/plugin-sdk/engine";
import { componentOf } from "./engine-token.ts";
import { createGate } from "./gate.ts";

const text = { type: "string" } as const;
const { values } = parseArgs({
  options: {
    engine: text,
    owner: text,
    network: text,
    "agent-socket": text,
    "job-socket": text,
    "token-key": text,
    issuer: text,
    service: text,
  },
});

function given(name: keyof typeof values): string {
  const value = values[name];
  if (value !== undefined) return value;
  throw new Failure("invalid", `the gate is not told its --${name}`);
}

const common = {
  engine: given("engine"),
  owner: given("owner"),
  network: given("network"),
  log: (message: string) => void process.stdout.write(`${message}\n`),
};
const publicKey = await readFile(given("token-key"), "utf8");
const trust = { publicKey, issuer: given("issuer"), service: given("service") };

// Whoever can see the agent's socket is the agent.
const agents = createGate({ ...common, whoIs: async () => ({ kind: "agent" }) });
const jobs = createGate({
  ...common,
  async whoIs({ headers: { authorization } }) {
    const component = componentOf(authorization, { ...trust, now: Date.now() });
    return component === undefined ? undefined : { kind: "job", component };
  },
});
await listenOnSocket(agents, given("agent-socket"));
await listenOnSocket(jobs, given("job-socket"));
common.log("the gate is open");

for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => process.exit(0));
