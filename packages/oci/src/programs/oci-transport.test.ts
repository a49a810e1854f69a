// The program between registries that are spoken to differently, and what it says on a terminal.

import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { serveRegistry } from "../registry/serve-registry.ts";
import { makeCertificate, serveTls, skipWithoutOpenssl } from "../registry/testing/tls-registry.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";

const PROGRAM = join(import.meta.dirname, "oci-main.ts");

async function run(args: readonly string[], environment: Record<string, string> = {}) {
  const env = { PATH: process.env["PATH"] ?? "", HOME: "/nowhere", ...environment };
  return promisify(execFile)(process.execPath, [PROGRAM, ...args], { env });
}

async function plainRegistry(t: TestContext): Promise<string> {
  const registry = await serveRegistry({
    directory: await temporaryDirectory(t),
    host: "127.0.0.1",
    port: 0,
    auth: { kind: "anonymous" },
  });
  t.after(() => registry.close());
  return registry.url.replace("http://", "");
}

async function tlsRegistry(t: TestContext) {
  const certificate = await makeCertificate(t);
  return { url: await serveTls(t, certificate), certFile: certificate.certFile };
}

describe("exclave oci", { skip: skipWithoutOpenssl }, () => {
  test("copies from plain HTTP to TLS, and --ca adds to the certificates that count anyway", async (t) => {
    const directory = await temporaryDirectory(t);
    writeFileSync(join(directory, "hello"), "hello");
    const plain = await plainRegistry(t);
    const [known, other] = [await tlsRegistry(t), await tlsRegistry(t)];
    const usual = { NODE_EXTRA_CA_CERTS: known.certFile };

    await run(["push", `${plain}/a:v1`, join(directory, "hello")]);
    await run(["copy", `${plain}/a:v1`, `${other.url}/b:v1`, "--ca", other.certFile]);
    const ca = ["--ca", other.certFile];
    await run(["copy", `${other.url}/b:v1`, `${known.url}/c:v1`, ...ca], usual);
    const { stdout } = await run(["inspect", `${known.url}/c:v1`], usual);

    assert.equal(JSON.parse(stdout).layers.length, 1);
  });
});

const hasNoTerminal = spawnSync("script", ["--version"]).status !== 0;

describe("on a terminal", { skip: hasNoTerminal ? "script is not installed" : false }, () => {
  test("progress is shown, and with --quiet it is not", async (t) => {
    const directory = await temporaryDirectory(t);
    writeFileSync(join(directory, "hello"), "hello");
    const layout = `oci:${join(directory, "layout")}:v1`;
    await run(["push", layout, join(directory, "hello")]);
    const shown = async (...options: string[]) => {
      const target = `oci:${join(directory, `to${options.length}`)}:v1`;
      const command = [process.execPath, PROGRAM, "copy", layout, target, ...options].join(" ");
      return (await promisify(execFile)("script", ["-qec", command, "/dev/null"])).stdout;
    };

    assert.match(await shown(), /MB\/s/);
    const quiet = await shown("--quiet");

    assert.match(quiet, /copiedBytes {2}7/);
    assert.doesNotMatch(quiet, /MB\/s/);
  });
});
