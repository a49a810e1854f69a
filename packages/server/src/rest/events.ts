import { watchEvents } from "@exclave/api";
import { knownInstall } from "../install/known-install.ts";
import { drained } from "./drained.ts";
import { type Handler, streamHandler } from "./handler.ts";

const HEARTBEAT_MS = 15_000;

export const EVENT_HANDLERS: readonly Handler[] = [
  streamHandler(watchEvents, async ({ query, request, reply, context }) => {
    const { after } = query;
    const install =
      query.install === undefined
        ? undefined
        : (await knownInstall(context.store.read, query.install)).id;
    const gone = new AbortController();
    request.raw.once("close", () => gone.abort());
    reply.raw.once("close", () => gone.abort());
    reply.hijack();
    const stream = reply.raw;
    stream.writeHead(200, {
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    });
    stream.write(": watching\n\n");
    // So that whatever lies between does not take a quiet stream for a dead one.
    const heartbeat = setInterval(() => {
      if (!stream.writableNeedDrain) stream.write(": still here\n\n");
    }, HEARTBEAT_MS);
    try {
      const watched = context.live.watch({ after, install, signal: gone.signal });
      for await (const event of watched) {
        const text = `id: ${event.id}\nevent: ${event.kind}\ndata: ${JSON.stringify(event)}\n\n`;
        if (!stream.write(text)) await drained(stream, gone.signal);
      }
    } catch (reason) {
      if (!gone.signal.aborted) throw reason;
    } finally {
      clearInterval(heartbeat);
      stream.end();
    }
  }),
];
