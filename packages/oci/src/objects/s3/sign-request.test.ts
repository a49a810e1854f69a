// The examples that AWS publishes for S3 ("Signature Calculations for the Authorization Header"), with its example
// credentials, and what they leave out.

import assert from "node:assert/strict";
import { test } from "node:test";
import { encodePath, encodeQuery, sha256, signRequest } from "./sign-request.ts";

const credentials = {
  accessKeyId: ["AKIA", "IOSFODNN7EXAMPLE"].join(""),
  secretAccessKey: ["wJalrXUtnFEMI", "K7MDENG", "bPxRfiCYEXAMPLEKEY"].join("/"),
};
const scope = {
  credentials,
  region: "us-east-1",
  service: "s3",
  now: Date.UTC(2013, 4, 24),
};
const host = "examplebucket.s3.amazonaws.com";
const NOTHING = sha256("");

test("signs a read of a part as AWS's example does", () => {
  const headers = signRequest(
    {
      method: "GET",
      path: "/test.txt",
      query: {},
      headers: { host, range: "bytes=0-9" },
      bodyHash: NOTHING,
    },
    scope,
  );

  assert.match(
    headers["authorization"] ?? "",
    /SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41$/,
  );
});

test("signs a write under a name with odd characters as AWS's example does", () => {
  const headers = signRequest(
    {
      method: "PUT",
      path: encodePath("/test$file.text"),
      query: {},
      headers: {
        date: "Fri, 24 May 2013 00:00:00 GMT",
        host,
        "x-amz-storage-class": "REDUCED_REDUNDANCY",
      },
      bodyHash: sha256("Welcome to Amazon S3."),
    },
    scope,
  );

  assert.match(
    headers["authorization"] ?? "",
    /Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd$/,
  );
});

test("signs a list, and a query without a value, as AWS's examples do", () => {
  const list = { method: "GET", path: "/", headers: { host }, bodyHash: NOTHING };

  const some = signRequest({ ...list, query: { prefix: "J", "max-keys": "2" } }, scope);
  const lifecycle = signRequest({ ...list, query: { lifecycle: "" } }, scope);

  assert.match(
    some["authorization"] ?? "",
    /Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7$/,
  );
  assert.match(
    lifecycle["authorization"] ?? "",
    /Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543$/,
  );
});

test("signs the token of temporary credentials along", () => {
  const temporary = { ...scope, credentials: { ...credentials, sessionToken: "for an hour" } };
  const headers = signRequest(
    { method: "GET", path: "/", query: {}, headers: { host }, bodyHash: NOTHING },
    temporary,
  );

  assert.equal(headers["x-amz-security-token"], "for an hour");
  assert.match(headers["authorization"] ?? "", /SignedHeaders=[^,]*;x-amz-security-token,/);
});

test("leaves only unreserved characters as they are", () => {
  assert.equal(encodePath("/a b/+c:d~e_(f)'*!"), "/a%20b/%2Bc%3Ad~e_%28f%29%27%2A%21");
  assert.equal(encodeQuery({ b: "/", a: "ü" }), "a=%C3%BC&b=%2F");
});
