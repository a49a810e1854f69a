// A port to be kept: chosen once, and listened on again after every restart. It is taken from below
// the range that systems hand out to outgoing connections. Inside that range anybody's connection may
// sit on it while its owner is away, even a client by a TCP self-connect.

import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { Failure } from "@exclave/core";

const LOWEST = 20_000;
const HIGHEST = 32_000;
const TRIES_MAX = 200;

export async function choosePort(): Promise<number> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const port = randomInt(LOWEST, HIGHEST);
    if (await isPortFree(port)) return port;
  }
  throw new Failure("unavailable", `no port between ${LOWEST} and ${HIGHEST} is free`);
}

export function isPortFree(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const server = createServer();
  server.once("error", () => resolve(false));
  server.listen({ host: "127.0.0.1", port }, () => server.close(() => resolve(true)));
  return promise;
}
