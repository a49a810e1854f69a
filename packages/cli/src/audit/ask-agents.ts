// What agents saw of the record, as the server passes it on: what each presented last, and what those who
// are connected answer now. The checkpoints are signed, but which of them are shown is the server's choice.

import { type Client, listCheckpoints } from "@exclave/api";
import type { Envelope } from "@exclave/core";
import { listAll } from "../connection/pages.ts";

/** Of more installs than this the first are asked; one is asked by its name. */
export const AGENTS_MAX = 2_000;

export interface AgentSightings {
  /** How many agents showed something. */
  readonly agents: number;
  readonly checkpoints: readonly Envelope[];
}

/** To be asked before the record is read: a checkpoint made later may be beyond what was read. */
export async function askAgents(
  client: Client,
  install: string | undefined,
): Promise<AgentSightings> {
  const query = install === undefined ? {} : { install };
  const items = await listAll(client, listCheckpoints, query, AGENTS_MAX);
  const shown = items.filter(({ checkpoints }) => checkpoints.length > 0);
  return { agents: shown.length, checkpoints: distinct(shown.flatMap((one) => one.checkpoints)) };
}

/** Agents that come at once are shown the same one. */
function distinct(checkpoints: readonly Envelope[]): Envelope[] {
  return [...new Map(checkpoints.map((one) => [one.payload, one])).values()];
}
