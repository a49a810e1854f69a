// The clouds' exchanges, against answers in the shape their documentation and tools show. No cloud was
// asked.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test } from "node:test";
import { createRegistryClient } from "../client/registry-client.ts";
import {
  createAcrCredentials,
  createEcrCredentials,
  createGarCredentials,
} from "./cloud-credentials.ts";

const ECR = "123456789012.dkr.ecr.eu-central-1.amazonaws.com";

/** As `aws ecr get-authorization-token --output json` prints it. */
function ecrAnswer(expiresAt: unknown) {
  return {
    authorizationData: [
      {
        authorizationToken: Buffer.from("AWS:eyJwYXlsb2FkIjoi").toString("base64"),
        expiresAt,
        proxyEndpoint: `https://${ECR}`,
      },
    ],
  };
}

describe("ECR", () => {
  test("gives a name and a password for the region in the host, kept for 11 of 12 hours", async () => {
    const hour = 3_600_000;
    const start = Date.parse("2026-01-01T00:00:00Z");
    let now = start;
    const asked: string[] = [];
    const find = createEcrCredentials({
      now: () => now,
      async getAuthorizationToken(region) {
        asked.push(region);
        return ecrAnswer("2026-01-01T12:00:00.000000+00:00");
      },
    });

    const first = await find(ECR);
    now = start + 10.9 * hour;
    await find(ECR);
    assert.equal(asked.length, 1);
    now = start + 11.1 * hour;
    await find(ECR);

    assert.deepEqual(first, { kind: "basic", username: "AWS", password: "eyJwYXlsb2FkIjoi" });
    assert.deepEqual(asked, ["eu-central-1", "eu-central-1"]);
  });

  test("reads the API's seconds as well as the CLI's date", async () => {
    const later = Date.now() / 1_000 + 43_200;
    const find = createEcrCredentials({ getAuthorizationToken: async () => ecrAnswer(later) });

    assert.equal((await find(ECR))?.kind, "basic");
  });

  test("is not asked about others' registries", async () => {
    const find = createEcrCredentials({
      getAuthorizationToken: () => assert.fail("asked"),
    });

    assert.equal(await find("ghcr.io"), undefined);
    assert.equal(await find(`${ECR}.evil.example`), undefined);
  });

  test("says so when it gives none", async () => {
    const find = createEcrCredentials({
      getAuthorizationToken: async () => ({ authorizationData: [] }),
    });

    await assert.rejects(find(ECR), /eu-central-1 gave no token/);
  });
});

describe("Artifact Registry", () => {
  test("takes an access token as a password, and a new one when it ends", async () => {
    let now = 0;
    let n = 0;
    const find = createGarCredentials({
      now: () => now,
      accessToken: async () => ({ token: `ya29.${++n}`, expiresAt: now + 3_599_000 }),
    });
    const basic = (password: string) => ({
      kind: "basic",
      username: "oauth2accesstoken",
      password,
    });

    assert.deepEqual(await find("europe-west3-docker.pkg.dev"), basic("ya29.1"));
    now = 3_600_000;
    assert.deepEqual(await find("europe-west3-docker.pkg.dev"), basic("ya29.2"));
    assert.equal(await find("pkg.dev.evil.example"), undefined);
  });
});

describe("ACR", () => {
  test("exchanges the account's token for a refresh token, and that for one per repository", async (t) => {
    const seen: Record<string, string>[] = [];
    const server = createServer((request, response) => {
      void (async () => {
        let body = "";
        for await (const chunk of request) body += String(chunk);
        const path = request.url ?? "";
        if (path.startsWith("/v2/")) {
          if (request.headers.authorization === "Bearer acr-access") {
            response.end(`{"name":"a","tags":["v1"]}`);
            return;
          }
          const challenge = `Bearer realm="http://${request.headers.host}/oauth2/token",service="myregistry.azurecr.io",scope="repository:a:metadata_read"`;
          response.writeHead(401, { "www-authenticate": challenge }).end();
          return;
        }
        seen.push({ path, ...Object.fromEntries(new URLSearchParams(body)) });
        const answer = path.endsWith("exchange")
          ? { refresh_token: "acr-refresh" }
          : { access_token: "acr-access" };
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
      })();
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    t.after(() => server.closeAllConnections());
    t.after(() => server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const credentials = createAcrCredentials({
      accessToken: async () => "entra",
      tenant: "contoso",
      originOf: () => url,
    });
    const client = createRegistryClient({ url, credentials });
    t.after(() => client.close());

    assert.deepEqual(await client.tags("a"), ["v1"]);

    const host = new URL(url).host;
    assert.deepEqual(seen, [
      {
        path: "/oauth2/exchange",
        grant_type: "access_token",
        service: host,
        access_token: "entra",
        tenant: "contoso",
      },
      {
        path: "/oauth2/token",
        grant_type: "refresh_token",
        refresh_token: "acr-refresh",
        client_id: "exclave",
        service: "myregistry.azurecr.io",
        scope: "repository:a:metadata_read",
      },
    ]);
  });
});
