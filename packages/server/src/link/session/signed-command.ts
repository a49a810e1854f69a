// A command as it goes out: what waited in the outbox, signed by the director of this moment.

import type { ServerCommand } from "@exclave/api";
import {
  type Audience,
  CANCEL_PAYLOAD_TYPE,
  CANCEL_VALID_MS,
  Cancel,
  cancelBytes,
  Failure,
  fromBase64,
  MANIFEST_PAYLOAD_TYPE,
} from "@exclave/core";
import type { ServerContext } from "../../context.ts";
import type { OutboxCommand } from "../../store/rows.ts";
import { type Command, isWaiting } from "../link-state.ts";

type Context = Pick<ServerContext, "trust" | "now">;

export async function signedCommand(
  context: Context,
  audience: Audience,
  command: Command,
): Promise<ServerCommand> {
  if (!isWaiting(command)) return command;
  if (command.type === "job_cancel") return signedCancel(context, audience, command);
  const { payload, ...offer } = command;
  const manifest = fromBase64(payload);
  if (!manifest) throw new Failure("bug", `the manifest of ${command.job} is not base64`);
  const envelope = await context.trust.seal("director", MANIFEST_PAYLOAD_TYPE, manifest);
  return { ...offer, envelope };
}

/** Dated when it is sent: an agent that was away for long still gets one that is valid. */
async function signedCancel(
  { trust, now }: Context,
  audience: Audience,
  { type, job, attempt, graceMs, ...why }: Extract<OutboxCommand, { type: "job_cancel" }>,
): Promise<ServerCommand> {
  const issuedAt = now();
  const cancel = Cancel.parse({
    version: 1,
    audience,
    job,
    attempt,
    graceMs,
    issuedAt,
    notAfter: issuedAt + CANCEL_VALID_MS,
    requestedBy: (why.requestedBy ?? "server").slice(0, 500),
    because: (why.because ?? "it was asked for").slice(0, 2_000),
  });
  const envelope = await trust.seal("director", CANCEL_PAYLOAD_TYPE, cancelBytes(cancel));
  return { type, job, attempt, envelope };
}
