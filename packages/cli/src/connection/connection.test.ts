import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { CliProblem } from "../program/problem.ts";
import { type ConnectionWish, decideTarget } from "./connection.ts";
import { homeOf } from "./home.ts";

const home = homeOf({ EXCLAVE_HOME: "/home" });
const settings = {
  current: "prod",
  contexts: {
    prod: { server: "https://prod.test", tokenFile: "/prod-token" },
    beta: { server: "https://beta.test", token: "beta-token" },
  },
};
const up = { url: "http://127.0.0.1:8420", pid: 1, startTime: "1", children: [] };

function target(wish: Partial<ConnectionWish>, known = { settings, up, home }) {
  return decideTarget({ environment: {}, ...wish }, known);
}

describe("decideTarget", () => {
  test("an option comes before the environment, the environment before the current context", () => {
    const environment = { EXCLAVE_SERVER: "https://beta.test" };

    assert.equal(target({ server: "http://x.test", environment }).url, "http://x.test");
    assert.equal(target({ context: "prod", environment }).url, "https://prod.test");
    assert.equal(target({ environment }).url, "https://beta.test");
    assert.equal(target({}).url, "https://prod.test");
  });

  test("finds the server running here when no context is there", () => {
    const found = target({}, { settings: { current: undefined, contexts: {} } as never, up, home });

    assert.equal(found.url, up.url);
    assert.deepEqual(found.token, { kind: "file", path: "/home/server/admin-token" });
  });

  test("takes the token of the context that has the server's address", () => {
    assert.deepEqual(target({ server: "https://beta.test/" }).token, {
      kind: "value",
      value: "beta-token",
      from: "the settings file",
    });
    assert.deepEqual(target({ server: "http://stranger.test" }).token, { kind: "none" });
  });

  test("a token that was handed in comes before the context's", () => {
    assert.deepEqual(target({ tokenFile: "/other" }).token, { kind: "file", path: "/other" });
    assert.deepEqual(target({ environment: { EXCLAVE_TOKEN: " t \n" } }).token, {
      kind: "value",
      value: "t",
      from: "EXCLAVE_TOKEN",
    });
  });

  test("says what to do when no server is known", () => {
    const nothing = { settings: { contexts: {} } as never, up: undefined as never, home };

    assert.throws(
      () => target({}, nothing),
      (reason) =>
        reason instanceof CliProblem &&
        reason.exitCode === 3 &&
        /exclave up/.test(reason.hint ?? ""),
    );
  });

  test("refuses an address that is none", () => {
    assert.throws(
      () => target({ server: "localhost:1" }),
      /--server is not the address of a server/,
    );
  });
});
