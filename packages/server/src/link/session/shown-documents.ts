// The signed documents one agent is shown besides its commands: the trust documents it does not have, and how the
// record has grown.

import { AUTHORITIES } from "@exclave/api";
import { caFingerprint } from "@exclave/machine";
import type { ServerContext } from "../../context.ts";
import type { Hello } from "../link-state.ts";
import type { LinkConnection } from "./link-connection.ts";

export interface ShownDocuments {
  /** What the agent has, by its own word. */
  greet(
    hello: Pick<Hello, "trustVersion" | "checkpointSizes" | "authorities" | "capabilities">,
  ): void;
  /** Every version the agent does not have, in order. One that says of none it has is too old for them. */
  sendTrust(): void;
  /** The authorities that vouch for this server, to an agent that pinned others. */
  sendAuthorities(): void;
  sendCheckpoint(): Promise<void>;
  /** Asks for the checkpoints the agent kept, once it has been shown one. */
  askCheckpoints(): void;
}

export function createShownDocuments(
  { trust, checkpoints, authority }: Pick<ServerContext, "trust" | "checkpoints" | "authority">,
  connection: LinkConnection,
): ShownDocuments {
  /** The newest trust document that is on its way to the agent or there. */
  let trustSent: number | undefined;
  /** What the agent says it saw of the record, and later what it was shown last. */
  let recordSeen: readonly number[] | undefined;
  let isRecordSent = false;
  /** What the agent holds this server against; undefined where it pinned nothing, or cannot change it. */
  let authoritiesSent: string | undefined;

  return {
    greet({ trustVersion, checkpointSizes, authorities = [], capabilities }) {
      const canChange = authorities.length > 0 && capabilities.includes(AUTHORITIES);
      authoritiesSent = canChange ? authorities.toSorted().join() : undefined;
      trustSent = trustVersion;
      recordSeen = checkpointSizes;
    },
    sendTrust,
    sendAuthorities,
    sendCheckpoint,
    askCheckpoints() {
      if (isRecordSent) connection.send({ type: "checkpoints_want" });
    },
  };

  function sendTrust(): void {
    if (trustSent === undefined) return;
    for (const { document, envelope } of trust.after(trustSent)) {
      connection.send({ type: "trust", envelope });
      trustSent = document.version;
    }
  }

  function sendAuthorities(): void {
    if (authoritiesSent === undefined || !authority?.isPinned) return;
    const current = authority.held.trusted();
    const named = current.map(caFingerprint).toSorted().join();
    if (named === authoritiesSent) return;
    connection.send({ type: "authorities", certificates: current.map((one) => one.toString()) });
    authoritiesSent = named;
  }

  async function sendCheckpoint(): Promise<void> {
    const agent = connection.peer?.agent;
    if (!recordSeen || !agent) return;
    await checkpoints.noteSeen(agent.id, recordSeen);
    const { checkpoint, envelope } = await checkpoints.latest();
    if (recordSeen.length === 1 && recordSeen[0] === checkpoint.size && isRecordSent) return;
    const heads = await checkpoints.headsAt(recordSeen);
    sendTrust();
    connection.send({ type: "checkpoint", envelope, heads });
    checkpoints.noteShown(agent.id, checkpoint.size);
    recordSeen = [checkpoint.size];
    if (!isRecordSent) connection.send({ type: "checkpoints_want" });
    isRecordSent = true;
  }
}
