// A registry behind TLS, with a certificate that nobody has heard of. Needs openssl.

import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { temporaryDirectory } from "../../testing/temporary-directory.ts";
import { createRegistry } from "../registry.ts";

const isAbsent = spawnSync("openssl", ["version"]).status !== 0;
/** For the options of a test. */
export const skipWithoutOpenssl = isAbsent ? "openssl is not installed" : false;

export interface TestCertificate {
  readonly key: Buffer;
  readonly cert: Buffer;
  readonly certFile: string;
}

export async function makeCertificate(t: TestContext): Promise<TestCertificate> {
  const directory = await temporaryDirectory(t);
  const [keyFile, certFile] = [join(directory, "key.pem"), join(directory, "cert.pem")];
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const names = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"];
  const files = ["-keyout", keyFile, "-out", certFile, "-days", "2"];
  execFileSync("openssl", ["req", "-x509", ...kind, ...names, ...files], { stdio: "ignore" });
  return { key: readFileSync(keyFile), cert: readFileSync(certFile), certFile };
}

/** Returns its address. */
export async function serveTls(t: TestContext, { key, cert }: TestCertificate): Promise<string> {
  const directory = await temporaryDirectory(t);
  const made = createRegistry({ directory, auth: { kind: "anonymous" } });
  const server = createServer({ key, cert }, (request, response) => {
    void made.handle(request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await made.close();
  });
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
