// Listens on a unix socket. Who may speak to what listens there is decided by who can see the directory the socket
// lies in, and by tokens: anybody who can see it may connect.

import { once } from "node:events";
import { chmod, rename, rm } from "node:fs/promises";
import type { Server } from "node:net";

/** In the place of one that an earlier life left; whoever looks for the socket finds one that answers. */
export async function listenOnSocket(server: Server, path: string): Promise<void> {
  const draft = `${path}.${process.pid}`;
  await rm(draft, { force: true });
  const listening = once(server, "listening");
  server.listen(draft);
  await listening;
  await chmod(draft, 0o666);
  await rename(draft, path);
}
