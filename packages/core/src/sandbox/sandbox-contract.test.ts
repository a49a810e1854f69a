import assert from "node:assert/strict";
import { test } from "node:test";
import { parseSandboxContract } from "./sandbox-contract.ts";

const CONTRACT = {
  version: 1,
  kind: "local",
  install: { id: "iacmeaaaaaaaaaaaa", name: "acme" },
  registry: { url: "http://127.0.0.1:1", issuer: "i", service: "s" },
  runtime: { type: "process", directory: "/srv/acme/runtime" },
};

test("a contract that says nothing about it allows no exec and shares no registry", () => {
  const contract = parseSandboxContract(JSON.stringify(CONTRACT));

  assert.deepEqual(contract?.debug, { exec: false });
  assert.deepEqual([contract?.registry.repository, contract?.registry.mountFrom], ["", []]);
  assert.deepEqual(contract?.roles, {});
});

test("what a kind of sandbox says beyond the contract is kept for expressions", () => {
  const contract = parseSandboxContract(JSON.stringify({ ...CONTRACT, region: "eu-central-1" }));

  assert.equal(contract?.["region"], "eu-central-1");
});

test("what belongs to no install, or to a name alone, is no contract", () => {
  const { install: _, ...nobodys } = CONTRACT;
  const wrong = [
    "",
    "{",
    JSON.stringify(nobodys),
    JSON.stringify({ ...CONTRACT, install: "acme" }),
    JSON.stringify({ ...CONTRACT, version: 2 }),
    JSON.stringify({ ...CONTRACT, registry: { ...CONTRACT.registry, repository: "../x" } }),
  ];

  for (const text of wrong) assert.equal(parseSandboxContract(text), undefined, text);
});
