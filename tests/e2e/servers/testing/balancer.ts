// What stands before several servers: passes connections on to one after the other, and leaves out those that do not
// answer.

import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface Balancer {
  readonly url: string;
  /** Ports of the servers behind it. */
  use(ports: readonly number[]): void;
  /** Ends what clients have with that server; the server is left with what it was sent, and does not hear of it. */
  sever(port: number): void;
  close(): Promise<void>;
}

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  readonly port: number;
  isSevered: boolean;
}

export async function startBalancer(): Promise<Balancer> {
  const pairs = new Set<Pair>();
  let ports: readonly number[] = [];
  let turn = 0;
  const listener = createServer((client) => {
    client.on("error", () => undefined);
    const first = turn++;
    pass(
      client,
      ports.map((_, n) => ports[(first + n) % ports.length] ?? 0),
    );
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as AddressInfo;

  return {
    url: `http://127.0.0.1:${port}`,
    use(given) {
      ports = given;
    },
    sever(of) {
      for (const pair of pairs) {
        if (pair.port !== of) continue;
        pair.isSevered = true;
        pair.client.destroy();
      }
    },
    async close() {
      for (const { client, server } of pairs) {
        client.destroy();
        server.destroy();
      }
      await new Promise<void>((resolve) => listener.close(() => resolve()));
    },
  };

  function pass(client: Socket, left: readonly number[]): void {
    const [to, ...others] = left;
    if (to === undefined) {
      client.destroy();
      return;
    }
    const server = connect(to, "127.0.0.1");
    const pair: Pair = { client, server, port: to, isSevered: false };
    server.on("error", () => {
      if (!pairs.has(pair)) pass(client, others);
    });
    server.once("connect", () => {
      pairs.add(pair);
      client.pipe(server, { end: false });
      server.pipe(client, { end: false });
      server.once("close", () => {
        pairs.delete(pair);
        client.destroy();
      });
      client.once("close", () => {
        if (!pair.isSevered) server.destroy();
      });
    });
  }
}
