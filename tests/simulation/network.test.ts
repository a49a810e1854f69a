import assert from "node:assert/strict";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describeLinkClient, type LinkPeer, type LinkUnderTest } from "@exclave/agent/simulation";
import { createPipe, type SimulatedSocket } from "./network.ts";
import { createWorld } from "./world.ts";

describeLinkClient("a link over the simulated network", async () => simulated());

function simulated(): LinkUnderTest {
  const world = createWorld({ seed: 1 });
  world.isTroubled = false;
  const peers: LinkPeer[] = [];
  return {
    options: {
      serverUrl: "http://server.test",
      dial() {
        const { agentEnd, serverEnd } = createPipe(world, "agent");
        peers.push(peerOf(serverEnd));
        return agentEnd as never;
      },
      timers: world.time.timersFor(() => true),
      elapsedMs: () => world.time.now,
    },
    peers,
    async until(isSo, what) {
      for (let steps = 0; !isSo(); steps++) {
        assert.ok(steps < 3_000, `waited in vain until ${what}`);
        await nextTurn();
        // Time stands still as long as something is ready: the next thing due may be a silence.
        if (isSo()) return;
        world.time.passToNext();
      }
    },
  };
}

function peerOf(socket: SimulatedSocket): LinkPeer {
  const heard: string[] = [];
  socket.on("message", (data: Buffer) => heard.push(data.toString("utf8")));
  return {
    heard,
    get isClosed() {
      return socket.readyState !== socket.OPEN;
    },
    say: (text) => socket.send(text),
    cut: () => socket.terminate(),
  };
}
