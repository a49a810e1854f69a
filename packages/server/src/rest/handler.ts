// How a call of the API becomes a route: who may make it, what it may carry, and how a failure looks.

import type { Call, Problem, Role } from "@exclave/api";
import { asFailure, type Failure } from "@exclave/core";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { z } from "zod";
import type { ServerContext } from "../context.ts";

export interface Caller {
  /** How the caller is named on record. */
  readonly name: string;
  readonly role: Role | "nobody";
}

export interface HandlerInput<C extends Call> {
  readonly params: z.output<C["params"]>;
  readonly query: z.output<C["query"]>;
  readonly body: z.output<C["body"]>;
  readonly caller: Caller;
  readonly context: ServerContext;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Milliseconds of the event loop that this took, for the caller's budget. */
  readonly charge: (ms: number) => void;
}

export interface Handler {
  readonly call: Call;
  readonly handle: (input: HandlerInput<Call>) => Promise<unknown>;
}

/** Ties a call to what answers it. The answer is checked against the call's own schema. */
export function handler<C extends Call>(
  call: C,
  handle: (input: HandlerInput<C>) => Promise<z.input<C["response"]>>,
): Handler {
  return { call, handle };
}

/** A handler that writes its answer itself: bytes and event streams. */
export function streamHandler<C extends Call>(
  call: C,
  handle: (input: HandlerInput<C>) => Promise<void>,
): Handler {
  return { call, handle };
}

export function problemOf(reason: unknown): Problem {
  const failure: Failure = asFailure(reason);
  const { code, rule, details } = failure;
  const problems = details["problems"];
  return {
    type: `https://exclave.dev/problems/${code}`,
    title: rule.means,
    status: rule.httpStatus,
    // What went wrong inside is for the log, not for the caller.
    detail: code === "bug" ? "the server failed; its log says more" : failure.message,
    code,
    ...(Array.isArray(problems) ? { problems: problems as NonNullable<Problem["problems"]> } : {}),
  };
}
