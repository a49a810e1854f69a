// Who may take how much of the vendor's registry. By the subject of a token that was verified: an agent gets many
// tokens and has one budget, and nobody can spend another's. Whoever shows no token is told where to get one, which
// costs no more than a refusal would.

import type { IncomingMessage } from "node:http";
import { Failure } from "@exclave/core";
import { RegistryError, type RegistryGate, type RegistryRefusal } from "@exclave/oci";
import type { ServerContext } from "../context.ts";
import { noteOnRecord, noteRefusal, retryAfterSeconds } from "./note-refusal.ts";
import { createRequestBudgets, type RequestBudgets } from "./request-budget.ts";

/** Looking for a digest that a token does not open means walking through all that it does. */
const DENIED_UNITS = 20;

export function createRegistryGate(
  context: Pick<ServerContext, "store" | "now" | "repeats" | "failedLogins">,
  budgets: RequestBudgets = createRequestBudgets(),
): RegistryGate {
  const charges = new WeakMap<IncomingMessage, (units: number) => void>();
  return { enter, refused };

  async function enter(
    subject: string,
    { request, response }: Parameters<RegistryGate["enter"]>[1],
  ): Promise<void> {
    const gone = new AbortController();
    response.once("close", () => gone.abort(new Failure("cancelled", "the caller has gone")));
    const visit = await budgets
      .enter({ caller: subject, kind: "registry", isStream: false, signal: gone.signal })
      .catch((reason: unknown) => {
        throw asTooMany(reason);
      });
    charges.set(request, (units) => visit.charge(units));
    response.once("close", () => visit.leave());
    if (gone.signal.aborted) visit.leave();
  }

  async function refused(refusal: RegistryRefusal): Promise<RegistryError> {
    const { error, request, route, subject } = refusal;
    const { authorization } = request.headers;
    const asked = `${request.method} /v2 ${route}`;
    if (subject === undefined && authorization !== undefined && isGuess(error)) {
      const failure = await noteRefusal(context, {
        failure: new Failure("unauthenticated", error.message),
        actor: "nobody",
        secret: authorization,
        address: request.socket.remoteAddress ?? "unknown",
        asked,
        isUpload: false,
      });
      return failure.code === "rate_limited" ? tooMany(failure) : error;
    }
    if (subject !== undefined && error.code === "DENIED" && error.status === 403) {
      charges.get(request)?.(DENIED_UNITS);
      const details = { because: error.message };
      await noteOnRecord(context, {
        actor: subject,
        action: "call.denied",
        subject: asked,
        details,
      });
    }
    return error;
  }
}

/** A token that has expired was ours: a client goes on with the next one. */
function isGuess({ code, cause }: RegistryError): boolean {
  if (code !== "UNAUTHORIZED") return false;
  return !(cause instanceof Failure && cause.details["isExpired"] === true);
}

function asTooMany(reason: unknown): unknown {
  return reason instanceof Failure && reason.code === "rate_limited" ? tooMany(reason) : reason;
}

function tooMany(failure: Failure): RegistryError {
  const headers = { "retry-after": String(retryAfterSeconds(failure)) };
  return new RegistryError("TOOMANYREQUESTS", failure.message, { headers, cause: failure });
}
