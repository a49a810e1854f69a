// Lets a request in: its turn in the budget of whoever makes it, who that is, and whether they may. All of it before a
// byte of the body is read.

import type { Call } from "@exclave/api";
import { Failure, isLoopback } from "@exclave/core";
import { addressGroup } from "@exclave/oci";
import type { FastifyReply, FastifyRequest } from "fastify";
import {
  type CallerKind,
  createRequestBudgets,
  type RequestBudgets,
  UNIT_BYTES,
  type Visit,
} from "../access/request-budget.ts";
import type { ServerContext } from "../context.ts";
import { secretHash } from "../identifiers.ts";
import { authenticate, authorize } from "./authenticate.ts";
import type { Caller } from "./handler.ts";

export interface Admitted {
  readonly caller: Caller;
  readonly charge: (units: number) => void;
}

export interface Admission {
  admit(call: Call, request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** The turn alone, for routes that are no calls of the API and look at credentials of their own. */
  enter(request: FastifyRequest, reply: FastifyReply, turn: Turn): Promise<Visit>;
  of(request: FastifyRequest): Admitted;
}

export interface Turn {
  readonly isStream: boolean;
  /** By what the request shows unless given. */
  readonly payer?: Payer;
}

interface Payer {
  readonly caller: string;
  readonly kind: CallerKind;
}

const admitted = new WeakMap<FastifyRequest, Admitted>();

/** Who made a request, for what is said about it when it fails. */
export function callerOf(request: FastifyRequest): Caller | undefined {
  return admitted.get(request)?.caller;
}

export function createAdmission(
  context: () => ServerContext,
  budgets: RequestBudgets = createRequestBudgets(),
): Admission {
  return {
    enter,
    async admit(call, request, reply) {
      const isStream = call.produces !== "json" || call.consumes === "bytes";
      const visit = await enter(request, reply, { isStream });
      if (reply.raw.destroyed) return;
      const caller = await authenticate(context(), request.headers.authorization).catch(
        (reason: unknown) => {
          // Failed logins wait for their answer elsewhere, and are counted there.
          visit.leave();
          throw reason;
        },
      );
      admitted.set(request, { caller, charge: (units) => visit.charge(units) });
      authorize(caller, call.access);
      if (call.consumes === "json") visit.charge(bodyBytes(call, request) / UNIT_BYTES);
    },
    of(request) {
      const found = admitted.get(request);
      if (!found) throw new Failure("bug", "a request was not let in");
      return found;
    },
  };

  async function enter(request: FastifyRequest, reply: FastifyReply, turn: Turn): Promise<Visit> {
    const { isStream, payer = payerOf(request) } = turn;
    const gone = new AbortController();
    reply.raw.once("close", () => gone.abort(new Failure("cancelled", "the caller has gone")));
    const visit = await budgets.enter({ ...payer, isStream, signal: gone.signal });
    reply.raw.once("close", () => {
      const bytes = isStream ? 0 : Number(reply.getHeader("content-length") ?? 0);
      visit.charge(bytes / UNIT_BYTES);
      visit.leave();
    });
    if (gone.signal.aborted) visit.leave();
    return visit;
  }
}

/** By what is shown and not by whose it is: one that is over its budget costs not even a look at the tokens. */
function payerOf({ headers, socket }: FastifyRequest): Payer {
  const { authorization } = headers;
  if (authorization !== undefined) return { caller: secretHash(authorization), kind: "token" };
  const address = socket.remoteAddress ?? "unknown";
  return { caller: addressGroup(address), kind: isLoopback(address) ? "proxy" : "address" };
}

/** A body that does not say its length is taken for the largest. */
function bodyBytes({ bodyBytesMax = 0 }: Call, { headers }: FastifyRequest): number {
  const said = headers["content-length"];
  return said === undefined ? bodyBytesMax : Number(said);
}
