import { getMetrics } from "@exclave/api";
import { type Handler, streamHandler } from "./handler.ts";

export const METRICS_HANDLERS: readonly Handler[] = [
  streamHandler(getMetrics, async ({ reply, context }) => {
    await reply.type("text/plain; version=0.0.4; charset=utf-8").send(context.metrics.render());
  }),
];
