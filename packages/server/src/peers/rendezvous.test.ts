import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseServer } from "./rendezvous.ts";

const SERVERS = ["a", "b", "c", "d"];
const INSTALLS = Array.from({ length: 2_000 }, (_, n) => `i${n}`);

test("all who ask choose the same server, in whatever order they know them", () => {
  for (const install of INSTALLS) {
    assert.equal(chooseServer(SERVERS, install), chooseServer(SERVERS.toReversed(), install));
  }
});

test("each has about its share", () => {
  for (const server of SERVERS) {
    const count = INSTALLS.filter((install) => chooseServer(SERVERS, install) === server).length;
    assert.ok(count > 400 && count < 600, `${server} has ${count}`);
  }
});

test("when one goes, only what it did changes hands", () => {
  const left = SERVERS.filter((server) => server !== "b");
  for (const install of INSTALLS) {
    const before = chooseServer(SERVERS, install);
    if (before !== "b") assert.equal(chooseServer(left, install), before);
  }
});

test("nobody is chosen of none", () => {
  assert.equal(chooseServer([], "i"), undefined);
});
