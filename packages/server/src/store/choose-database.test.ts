import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseDatabase, refuseForgotten } from "./choose-database.ts";

const NEW = { hasUrl: false, hasFile: false, wasMoved: false };

test("a server begins with a file unless it was told of a database", () => {
  assert.equal(chooseDatabase(NEW), "sqlite");
  assert.equal(chooseDatabase({ ...NEW, hasFile: true }), "sqlite");
  assert.equal(chooseDatabase({ ...NEW, hasUrl: true }), "postgres");
  assert.equal(chooseDatabase({ hasUrl: true, hasFile: false, wasMoved: true }), "postgres");
});

test("a server whose memory was moved does not begin anew without its database", () => {
  assert.throws(() => chooseDatabase({ ...NEW, wasMoved: true }), /set EXCLAVE_DATABASE_URL/);
});

test("an empty database beside a file that was never moved is refused, with the command that moves it", () => {
  const facts = { hasUrl: true, hasFile: true, wasMoved: false };
  assert.throws(() => refuseForgotten(facts, true), /exclave server migrate/);
  assert.doesNotThrow(() => refuseForgotten(facts, false));
  assert.doesNotThrow(() => refuseForgotten({ ...facts, hasFile: false }, true));
  assert.doesNotThrow(() => refuseForgotten({ ...facts, hasUrl: false }, true));
});
