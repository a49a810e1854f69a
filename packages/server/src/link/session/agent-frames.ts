// What an agent sends, read into what the link machine takes: each frame with the facts it has to be judged by.

import { AgentFrame, type LogFrame } from "@exclave/api";
import { Failure, isDeeperThan, JSON_DEPTH_MAX } from "@exclave/core";
import type { WebSocket } from "ws";
import { noteRefusal } from "../../access/note-refusal.ts";
import type { ServerContext } from "../../context.ts";
import type { PresentedCertificate } from "../../tls/certificate-rules.ts";
import { writableLog } from "../agent-logs.ts";
import type { Hello, LinkInput, LinkSettings } from "../link-state.ts";
import type { AgentQuotas } from "./agent-quota.ts";
import { boundedEvent } from "./bounded-event.ts";
import { gatherHello } from "./hello-facts.ts";
import type { LinkConnection } from "./link-connection.ts";
import type { ShownDocuments } from "./shown-documents.ts";

export interface AgentFrames {
  /** Nothing when the frame says nothing the machine needs to hear. */
  read(data: Buffer): Promise<LinkInput | undefined>;
  readLog(frame: LogFrame): Promise<LinkInput>;
}

export interface AgentFramesOptions {
  readonly connection: LinkConnection;
  readonly socket: WebSocket;
  readonly documents: ShownDocuments;
  readonly address: string | undefined;
  readonly settings: LinkSettings;
  readonly quotas: AgentQuotas;
  readonly presented?: PresentedCertificate | undefined;
}

export function createAgentFrames(
  context: ServerContext,
  options: AgentFramesOptions,
): AgentFrames {
  const { connection, socket, documents, address } = options;
  return { read: frameInput, readLog: logInput };

  async function frameInput(data: Buffer): Promise<LinkInput | undefined> {
    const frame = parseFrame(data);
    if (!frame) {
      const because = "that is not a frame of this protocol";
      connection.goAway({ code: "protocol", because, retryAfterMs: 5_000 }, 1008);
      return undefined;
    }
    const now = context.now();
    if (frame.type === "event") {
      return { kind: "frame", frame: { ...frame, body: boundedEvent(frame.body) }, now };
    }
    if (frame.type !== "hello") return { kind: "frame", frame, now };
    return helloInput(frame, now);
  }

  async function helloInput(frame: Hello, now: number): Promise<LinkInput | undefined> {
    const { nonce } = connection;
    const { facts, proven } = await gatherHello(context, frame, { ...options, nonce });
    if (!proven && !(await isWorthAnswering(frame))) {
      socket.terminate();
      return undefined;
    }
    connection.peer = proven;
    if (proven) documents.greet(frame);
    return { kind: "hello", frame, facts, now };
  }

  /** Whoever is not the agent they say has failed to log in: on record, answered late, or not at all. */
  async function isWorthAnswering(frame: Hello): Promise<boolean> {
    const because = "no agent with that id and key has joined here";
    const answer = await noteRefusal(context, {
      failure: new Failure("unauthenticated", because),
      actor: "nobody",
      secret: frame.agent,
      address: address ?? "unknown",
      asked: "hello of an agent",
      isUpload: false,
    });
    return answer.code !== "rate_limited";
  }

  async function logInput(frame: LogFrame): Promise<LinkInput> {
    const log = await writableLog(context, connection.peer?.agent, frame, "writer");
    const isUnwanted = log === undefined && !(await context.store.read.jobs.get(frame.job));
    return { kind: "log", frame, ...log, isUnwanted, now: context.now() };
  }
}

function parseFrame(data: Buffer): AgentFrame | undefined {
  try {
    const value: unknown = JSON.parse(data.toString("utf8"));
    return isDeeperThan(value, JSON_DEPTH_MAX) ? undefined : AgentFrame.safeParse(value).data;
  } catch {
    return undefined;
  }
}
