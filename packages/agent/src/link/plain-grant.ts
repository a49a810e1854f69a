// A grant says where its secrets are to be sent. In the clear they are sent nowhere but on this machine.

import type { ServerFrame, UnreadableCommand } from "@exclave/api";
import { asFailure, refusePlainHttp } from "@exclave/core";

/** The frame as it came, or, where its grant would be used in the clear, a refusal instead. */
export function withoutPlainGrant(
  frame: ServerFrame | UnreadableCommand,
  isAllowed: boolean,
): ServerFrame | UnreadableCommand {
  if (frame.type !== "grant" || !frame.grant) return frame;
  const { grant, ...rest } = frame;
  try {
    refusePlainHttp(grant.registryUrl, isAllowed);
    if (grant.sourceUrl !== undefined) refusePlainHttp(grant.sourceUrl, isAllowed);
    return frame;
  } catch (reason) {
    return { ...rest, refused: asFailure(reason).message };
  }
}
