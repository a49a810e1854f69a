// The signed documents one agent is shown besides its commands: the trust documents it does not have, and how the
// record has grown.

import type { ServerContext } from "../../context.ts";
import type { Hello } from "../link-state.ts";
import type { LinkConnection } from "./link-connection.ts";

export interface ShownDocuments {
  /** What the agent has, by its own word. */
  greet(hello: Pick<Hello, "trustVersion" | "checkpointSizes">): void;
  /** Every version the agent does not have, in order. One that says of none it has is too old for them. */
  sendTrust(): void;
  sendCheckpoint(): Promise<void>;
  /** Asks for the checkpoints the agent kept, once it has been shown one. */
  askCheckpoints(): void;
}

export function createShownDocuments(
  { trust, checkpoints }: Pick<ServerContext, "trust" | "checkpoints">,
  connection: LinkConnection,
): ShownDocuments {
  /** The newest trust document that is on its way to the agent or there. */
  let trustSent: number | undefined;
  /** What the agent says it saw of the record, and later what it was shown last. */
  let recordSeen: readonly number[] | undefined;
  let isRecordSent = false;

  return {
    greet({ trustVersion, checkpointSizes }) {
      trustSent = trustVersion;
      recordSeen = checkpointSizes;
    },
    sendTrust,
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
