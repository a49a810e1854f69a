// Tokens as our server mints them, at the registry most people run: `distribution` in token mode, told
// our public key and nothing else.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { generateKeyPairSync, type KeyObject, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Action, createLayoutStore, keyId, mintToken, packImage } from "@exclave/oci";
import { temporaryPlace, toolsAt, unlessInstalled } from "./testing/registry-program.ts";

const ours = generateKeyPairSync("ed25519");
const theirs = generateKeyPairSync("ed25519");

describe("distribution", { skip: unlessInstalled("registry") }, () => {
  test("lets a token of ours do what it names, and refuses every other", async (t) => {
    const { url } = await startDistribution(t);
    const push = async (token: string | undefined, repository = "team/app") => {
      const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
      const path = new URL(`/v2/${repository}/blobs/uploads/`, url);
      return (await fetch(path, { method: "POST", headers })).status;
    };

    assert.equal(await push(await token({})), 202);
    assert.equal(await push(undefined), 401);
    assert.equal(await push(await token({ key: theirs.privateKey })), 401);
    assert.equal(await push(await token({ audience: "elsewhere" })), 401);
    assert.equal(await push(await token({ issuer: "someone" })), 401);
    assert.equal(await push(await token({ now: Date.now() - 600_000 })), 401);
    assert.equal(await push(await token({ actions: ["pull"] })), 401);
    assert.equal(await push(await token({}), "team/other"), 401);
  });

  test("brings skopeo to our token service and takes what it hands out", {
    skip: unlessInstalled("skopeo"),
  }, async (t) => {
    const place = temporaryPlace(t);
    const asked: string[] = [];
    const service = createServer((request, response) => {
      const { searchParams } = new URL(request.url ?? "/", "http://service");
      const scope = searchParams.get("scope") ?? "";
      asked.push(scope);
      const [, name = "", actions = ""] = /^repository:(.+):([^:]+)$/.exec(scope) ?? [];
      void token({ name, actions: actions.split(",") as Action[] }).then((minted) =>
        response.end(JSON.stringify({ token: minted, expires_in: 60 })),
      );
    });
    service.listen(0, "127.0.0.1");
    await once(service, "listening");
    t.after(() => service.close());
    const { port } = service.address() as AddressInfo;
    const { host } = await startDistribution(t, `http://127.0.0.1:${port}/token`);
    const layout = join(place, "layout");
    mkdirSync(join(place, "files"));
    writeFileSync(join(place, "files", "hello"), "hello from an image\n");
    await packImage({
      store: createLayoutStore({ directory: layout }),
      repository: "a",
      layers: [{ directory: join(place, "files") }],
      tag: "v1",
    });

    const copy = ["--insecure-policy", "copy", "--dest-tls-verify=false", "--dest-creds=any:one"];
    await toolsAt(place)("skopeo", ...copy, `oci:${layout}:a:v1`, `docker://${host}/team/app:v1`);

    assert.ok(asked.includes("repository:team/app:pull,push"));
  });
});

interface Wanted {
  readonly key?: KeyObject;
  readonly issuer?: string;
  readonly audience?: string;
  readonly name?: string;
  readonly actions?: readonly Action[];
  readonly now?: number;
}

function token(wanted: Wanted): Promise<string> {
  const { name = "team/app", actions = ["pull", "push"] } = wanted;
  return mintToken({
    privateKey: wanted.key ?? ours.privateKey,
    issuer: wanted.issuer ?? "exclave",
    audience: wanted.audience ?? "acme-registry",
    subject: "build",
    access: [{ type: "repository", name, actions }],
    ttlMs: 60_000,
    now: wanted.now ?? Date.now(),
    jti: randomUUID(),
  });
}

async function startDistribution(t: TestContext, realm = "https://exclave.example/token") {
  const place = temporaryPlace(t);
  const port = await freePort();
  const jwk = ours.publicKey.export({ format: "jwk" });
  const kid = await keyId(ours.publicKey);
  const keys = [{ ...jwk, kid, alg: "EdDSA", use: "sig" }];
  writeFileSync(join(place, "jwks.json"), JSON.stringify({ keys }));
  const config = {
    version: "0.1",
    log: { level: "error", accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(place, "content") } },
    http: { addr: `127.0.0.1:${port}` },
    auth: {
      token: {
        realm,
        service: "acme-registry",
        issuer: "exclave",
        jwks: join(place, "jwks.json"),
        signingalgorithms: ["EdDSA"],
      },
    },
  };
  const file = join(place, "config.yml");
  writeFileSync(file, JSON.stringify(config));
  const env = { PATH: process.env["PATH"], OTEL_TRACES_EXPORTER: "none" };
  const child = spawn("registry", ["serve", file], { env, stdio: "ignore" });
  t.after(() => child.kill("SIGKILL"));
  const url = `http://127.0.0.1:${port}`;
  for (let look = 0; look < 500; look++) {
    const answer = await fetch(new URL("/v2/", url)).catch(() => undefined);
    if (answer) return { url, host: `127.0.0.1:${port}` };
    await sleep(20);
  }
  throw new Error("distribution did not start");
}

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
