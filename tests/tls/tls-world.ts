// A server that speaks TLS on loopback, and those who dial it: agents that join, a proxy in between, and
// somebody who pretends to be the server.

import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, connect } from "node:net";
import type { TestContext } from "node:test";
import { type Joined, joinPorts, joinServer } from "@exclave/agent/simulation";
import { createJoin, decodeJoinString, encodeJoinString, type JoinString } from "@exclave/api";
import type { ProxyVariables } from "@exclave/machine";
import { type TestServer, testServer } from "@exclave/server/simulation";

export type TlsServer = TestServer & { readonly caFingerprint: string };

export async function tlsServer(
  t: TestContext,
  options: Parameters<typeof testServer>[1] = {},
): Promise<TlsServer> {
  const server = await testServer(t, { tls: { isForced: true }, ...options });
  return { ...server, caFingerprint: server.server.context.caFingerprint() ?? "" };
}

/** A join string for a build agent, with what is to be different in it. */
export async function joinStringOf(
  { client }: TestServer,
  changed: Partial<JoinString> = {},
): Promise<string> {
  const { joinString } = await client.call(createJoin, { body: { kind: "build" } });
  const join = decodeJoinString(joinString);
  if (!join) throw new Error("the server gave no join string");
  return encodeJoinString({ ...join, ...changed });
}

export function joinWith(
  joinString: string,
  proxy?: ProxyVariables,
  now = Date.now(),
): Promise<Joined> {
  return joinServer({ joinString, kind: "build", now, ...joinPorts(proxy) });
}

/** Speaks TLS with a certificate that somebody else issued, and writes down what it is told. */
export async function impostor(
  t: TestContext,
  { cert, key }: { readonly cert: string; readonly key: string },
): Promise<{ readonly url: string; readonly heard: string[] }> {
  const heard: string[] = [];
  const server = createTlsServer({ cert, key, minVersion: "TLSv1.3" }, (request, response) => {
    heard.push(`${request.method} ${request.url}`);
    request.on("data", (chunk: Buffer) => heard.push(chunk.toString()));
    response.end("{}");
  });
  server.listen({ host: "127.0.0.1", port: 0 });
  await once(server, "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`, heard };
}

/** A proxy that tunnels whatever host it is asked for to one port of this machine. */
export async function tunnel(
  t: TestContext,
  url: string,
): Promise<{ readonly proxy: ProxyVariables; readonly asked: string[] }> {
  const asked: string[] = [];
  const server = createHttpServer();
  server.on("connect", (request, socket) => {
    asked.push(request.url ?? "");
    const there = connect(Number(new URL(url).port), "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 Connection Established\r\n\r\n");
      there.pipe(socket);
      socket.pipe(there);
    });
    there.on("error", () => socket.destroy());
    socket.on("error", () => there.destroy());
    t.after(() => {
      there.destroy();
      socket.destroy();
    });
  });
  server.listen({ host: "127.0.0.1", port: 0 });
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { proxy: { HTTPS_PROXY: `http://127.0.0.1:${port}`, NO_PROXY: "" }, asked };
}
