import assert from "node:assert/strict";
import { test } from "node:test";
import { serverEnvironment } from "./server-environment.ts";

const AWS = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "key", AWS_REGION: "here" };

test("the server is given what it reads, and no token that happens to be in this shell", () => {
  const own = {
    EXCLAVE_DATABASE_URL: "postgres://db/exclave",
    EXCLAVE_SIGNER_SOCKET: "/run/signer",
    EXCLAVE_KEEP_JOBS_DAYS: "30",
    OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318",
  };

  const given = serverEnvironment({ ...own, ...AWS, EXCLAVE_TOKEN: "a-token", PATH: "/bin" });

  assert.deepEqual(given, own);
});

test("keys of an object store are handed on where one is named", () => {
  const store = { EXCLAVE_OBJECT_STORE: "s3://bucket", ...AWS };

  assert.deepEqual(serverEnvironment({ ...store, AWS_PROFILE: "mine" }), store);
});
