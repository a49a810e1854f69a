import assert from "node:assert/strict";
import { test } from "node:test";
import { DIGEST } from "../testing/builders.ts";
import { mountCandidates, ownPlace, ownRepository } from "./own-repository.ts";

const alone = { repository: "", mountFrom: [] };
const globex = { repository: "installs/globex", mountFrom: ["acme", ""] };

test("a name is kept on a registry that is the install's alone, and goes under the prefix on a shared one", () => {
  assert.equal(ownRepository(alone, "apps/crm/api"), "apps/crm/api");
  assert.equal(ownRepository(globex, "apps/crm/api"), "installs/globex/apps/crm/api");
});

test("content keeps everything but its place", () => {
  const material = { name: "api", repository: "apps/crm/api", digest: DIGEST };

  const placed = ownPlace(globex, material);

  assert.deepEqual(placed, { ...material, repository: "installs/globex/apps/crm/api" });
});

test("blobs may come from the same repositories of the others, then from this install's own", () => {
  const materials = ["apps/crm/api", "apps/crm/web"].map((repository) => ({
    repository,
    digest: DIGEST,
  }));
  const homes = ["exclave/runner", "exclave/runner"];

  assert.deepEqual(mountCandidates(globex, materials, homes), [
    "acme/apps/crm/api",
    "acme/apps/crm/web",
    "apps/crm/api",
    "apps/crm/web",
    "installs/globex/exclave/runner",
  ]);
  assert.deepEqual(mountCandidates(alone, materials, homes), ["exclave/runner"]);
});

test("of many others only a few are asked", () => {
  const many = { repository: "a", mountFrom: Array.from({ length: 50 }, (_, n) => `other-${n}`) };

  const candidates = mountCandidates(many, [{ repository: "apps/crm/api", digest: DIGEST }], []);

  assert.deepEqual(
    candidates,
    [0, 1, 2, 3].map((n) => `other-${n}/apps/crm/api`),
  );
});
