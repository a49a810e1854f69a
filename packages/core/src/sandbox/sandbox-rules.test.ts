import assert from "node:assert/strict";
import { test } from "node:test";
import { Operation } from "../manifest/manifest.ts";
import { refuseBySandbox, SandboxRules } from "./sandbox-rules.ts";

const manifest = (operation: Operation, inner = operation) =>
  ({ operation, steps: [{ operation: inner }] }) as never;

test("a sandbox that says nothing allows no exec, and names what would have to change", () => {
  const because = refuseBySandbox(manifest("exec"), SandboxRules.parse({}));

  assert.match(
    because ?? "",
    /does not allow exec.*`debug: \{ exec: true \}` in the sandbox's contract/,
  );
});

test("an exec in a step counts like one of the manifest", () => {
  assert.ok(refuseBySandbox(manifest("apply", "exec"), SandboxRules.parse({})));
});

test("a sandbox that allows exec lets it pass", () => {
  const rules = SandboxRules.parse({ debug: { exec: true } });

  assert.equal(refuseBySandbox(manifest("exec"), rules), undefined);
});

for (const operation of Operation.options.filter((operation) => operation !== "exec")) {
  test(`${operation} needs no such permission`, () => {
    assert.equal(refuseBySandbox(manifest(operation), SandboxRules.parse({})), undefined);
  });
}
