// Many agents in this process, the people who ask for jobs in their installs, and what became of it all.

import http from "node:http";
import https from "node:https";
import type { AgentEvent } from "@exclave/api";
import { createFleetAgent, type FleetAgent } from "./fleet-agent.ts";
import { COMPONENT, type Fleet } from "./seed-fleet.ts";

/** As many dial at once; more would only wait in the listener's queue. */
const DIALLING_MAX = 100;

export interface RunningFleet {
  readonly agents: readonly FleetAgent[];
  /** When each job's acceptance and end were acknowledged to its agent, by `performance.now()`. */
  readonly accepted: ReadonlyMap<string, number>;
  readonly ended: ReadonlyMap<string, number>;
  /** When the first job of each install was accepted, since `clear`. */
  readonly firstAccepted: ReadonlyMap<string, number>;
  /** When the server had all that a job wrote. */
  readonly delivered: ReadonlyMap<string, number>;
  liveCount(): number;
  /** Times any agent lost its link. */
  closes(): number;
  clear(): void;
  /** The first so many; all unless given. Those that are connected stay. */
  connect(url: string, count?: number): Promise<void>;
  stop(): void;
}

export interface FleetOptions {
  /** What a job writes; nothing unless given. */
  readonly logOf?: (job: string) => AsyncIterable<Buffer>;
}

export function createFleet({ members, ca }: Fleet, { logOf }: FleetOptions = {}): RunningFleet {
  const accepted = new Map<string, number>();
  const ended = new Map<string, number>();
  const firstAccepted = new Map<string, number>();
  const delivered = new Map<string, number>();
  let live = 0;
  let closes = 0;
  const agents = members.map((member) =>
    createFleetAgent(
      member,
      {
        onLive,
        onClosed,
        onAcknowledged,
        ...(logOf && { logOf }),
        onLogDelivered: (job) => delivered.set(job, performance.now()),
      },
      ca,
    ),
  );

  return {
    agents,
    accepted,
    ended,
    firstAccepted,
    delivered,
    liveCount: () => live,
    closes: () => closes,
    clear() {
      accepted.clear();
      ended.clear();
      firstAccepted.clear();
      delivered.clear();
    },
    async connect(url, count = agents.length) {
      for (let n = live; n < count; n++) {
        agents[n]?.connect(url);
        await until(() => n + 1 - live < DIALLING_MAX, "agents are connected");
      }
      await until(() => live === count, "all agents are connected");
    },
    stop() {
      for (const agent of agents) agent.stop();
    },
  };

  function onLive(): void {
    live++;
  }

  function onClosed(): void {
    live--;
    closes++;
  }

  function onAcknowledged(event: AgentEvent, { install }: FleetAgent): void {
    const now = performance.now();
    if (event.type === "job_ended") ended.set(event.job, now);
    if (event.type !== "job_accepted") return;
    accepted.set(event.job, now);
    if (!firstAccepted.has(install)) firstAccepted.set(install, now);
  }
}

export interface People {
  /** Asks for a job in that install; resolves with its id when the server has it on record. */
  ask(install: string): Promise<string>;
  close(): void;
}

export function createPeople(url: string, { tokens, ca }: Fleet): People {
  const { hostname, port } = new URL(url);
  const kept = { keepAlive: true, maxSockets: 64 };
  const agent = ca === undefined ? new http.Agent(kept) : new https.Agent({ ...kept, ca });
  const request = ca === undefined ? http.request : https.request;
  const body = JSON.stringify({ operation: "exec", command: ["true"] });
  let turn = 0;

  return { ask, close: () => agent.destroy() };

  function ask(install: string): Promise<string> {
    const token = tokens[turn++ % tokens.length];
    const path = `/v1/installs/${install}/components/${COMPONENT}/jobs`;
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "content-length": body.length,
    };
    return new Promise((resolve, reject) => {
      const asked = request(
        { agent, hostname, port, path, method: "POST", headers },
        (response) => {
          let text = "";
          response.setEncoding("utf8");
          response.on("data", (chunk: string) => {
            text += chunk;
          });
          response.on("end", () => {
            if (response.statusCode === 201) resolve((JSON.parse(text) as { id: string }).id);
            else reject(new Error(`${response.statusCode}: ${text}`));
          });
        },
      );
      asked.on("error", reject);
      asked.end(body);
    });
  }
}

/** Looks until it is so; fails when nothing came of it for long. */
export async function until(isSo: () => boolean, what: string, ms = 600_000): Promise<void> {
  const deadline = performance.now() + ms;
  while (!isSo()) {
    if (performance.now() > deadline) throw new Error(`it did not happen that ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
