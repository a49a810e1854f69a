import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { JOB_ENVIRONMENT } from "@exclave/core";
import { makeCertificate } from "@exclave/machine";
import { fetchFiles } from "./fetch-files.ts";

const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const about = { kind: "server", hosts: ["127.0.0.1"] } as const;
const day = 86_400_000;
const cert = makeCertificate(
  {
    about,
    name: "agent",
    key: publicKey,
    serial: Buffer.alloc(16, 0x41),
    notBefore: Date.now() - day,
    notAfter: Date.now() + day,
  },
  { privateKey },
).toString();

async function agent(t: TestContext, listener: RequestListener) {
  const key = privateKey.export({ type: "pkcs8", format: "pem" });
  const server = createServer({ cert, key }, listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const directory = await mkdtemp(join(tmpdir(), "exclave-fetch-"));
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await rm(directory, { recursive: true, force: true });
  });
  const tokenFile = join(directory, "token");
  await writeFile(tokenFile, "the-token\n");
  const { port } = server.address() as AddressInfo;
  const environment: Record<string, string> = {
    [JOB_ENVIRONMENT.documentUrl]: `https://127.0.0.1:${port}/v1/document`,
    [JOB_ENVIRONMENT.documentCa]: cert,
    [JOB_ENVIRONMENT.documentToken]: tokenFile,
  };
  const jobDirectory = join(directory, "own");
  const fetch = (changes: Record<string, string> = {}) =>
    fetchFiles({
      environment: { ...environment, ...changes },
      jobDirectory,
      signal: new AbortController().signal,
      waitMs: 5_000,
    });
  return { fetch, jobDirectory };
}

test("brings the job its files, readable by it alone, and shows its token", async (t) => {
  let shown: string | undefined;
  const { fetch, jobDirectory } = await agent(t, (request, response) => {
    shown = request.headers.authorization;
    response.end(JSON.stringify({ files: { "job.json": "{}" } }));
  });

  await fetch();

  assert.equal(shown, "Bearer the-token");
  assert.equal(await readFile(join(jobDirectory, "job.json"), "utf8"), "{}");
  assert.equal((await stat(join(jobDirectory, "job.json"))).mode & 0o777, 0o600);
  assert.equal((await stat(jobDirectory)).mode & 0o777, 0o700);
});

test("a refusal is final, and an agent that is busy is asked again", async (t) => {
  let asked = 0;
  const { fetch } = await agent(t, (_request, response) => {
    asked += 1;
    response.writeHead(asked === 1 ? 503 : 410);
    response.end('{"because":"handed out before"}');
  });

  await assert.rejects(fetch(), { code: "forbidden", message: /handed out before/ });

  assert.equal(asked, 2);
});

test("an answer that breaks off is not asked for again: it was given", async (t) => {
  let asked = 0;
  const { fetch } = await agent(t, (_request, response) => {
    asked += 1;
    response.writeHead(200, { "content-length": "1000" });
    response.write('{"files":', () => response.destroy());
  });

  await assert.rejects(fetch(), { code: "forbidden" });

  assert.equal(asked, 1);
});

test("an answer without an end, and one that is no set of files, are refused", async (t) => {
  const endless = await agent(t, (_request, response) => {
    const more = () => {
      if (!response.destroyed)
        response.write(Buffer.alloc(1024 * 1024, "x"), () => setImmediate(more));
    };
    more();
  });
  await assert.rejects(endless.fetch(), { code: "forbidden", message: /over/ });

  const outside = await agent(t, (_request, response) =>
    response.end(JSON.stringify({ files: { "../other": "s3cret" } })),
  );
  await assert.rejects(outside.fetch(), (reason: Error) => !/s3cret/.test(reason.message));
});

test("nobody else is taken for the agent", async (t) => {
  const { fetch } = await agent(t, (_request, response) => response.end('{"files":{}}'));
  const other = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const stranger = makeCertificate(
    {
      about,
      name: "stranger",
      key: other.publicKey,
      serial: Buffer.alloc(16, 0x42),
      notBefore: Date.now() - day,
      notAfter: Date.now() + day,
    },
    { privateKey: other.privateKey },
  ).toString();

  await assert.rejects(fetch({ [JOB_ENVIRONMENT.documentCa]: stranger }), { code: "unavailable" });
});
