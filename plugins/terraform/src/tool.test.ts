import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Failure, type RunResult } from "@exclave/plugin-sdk";
import { findTool, type ToolName } from "./tool.ts";

describe("findTool", () => {
  test("takes terraform first, then tofu", async () => {
    assert.equal(
      (await findTool(machine("tofu", "terraform"), "auto", undefined)).name,
      "terraform",
    );
    assert.deepEqual(await findTool(machine("tofu"), "auto", undefined), {
      name: "tofu",
      version: "1.2.3",
    });
  });

  test("stays with the one that wrote the state", async () => {
    const both = machine("tofu", "terraform");

    assert.equal((await findTool(both, "auto", "tofu")).name, "tofu");
    await assert.rejects(findTool(machine("tofu"), "auto", "terraform"), /which wrote this/);
    await assert.rejects(findTool(both, "tofu", "terraform"), isFailure("conflict"));
  });

  test("says what is missing", async () => {
    await assert.rejects(findTool(machine(), "auto", undefined), /terraform or tofu is not on/);
    await assert.rejects(
      findTool(machine("tofu"), "terraform", undefined),
      isFailure("unavailable"),
    );
  });

  test("does not take a broken tool for a missing one", async () => {
    const run = async () => Promise.reject(new Failure("tool", "tofu was ended by SIGSEGV"));

    await assert.rejects(findTool({ run }, "auto", undefined), /SIGSEGV/);
  });
});

/** A machine that has these programs, and answers as the SDK does for those it has not. */
function machine(...names: ToolName[]) {
  return {
    run: async (program: string): Promise<RunResult> => {
      if (!names.includes(program as ToolName)) {
        throw new Failure("invalid", `there is no program ${program} to run`);
      }
      return { exitCode: 0, stdout: '{"terraform_version":"1.2.3"}', stderr: "" };
    },
  };
}

function isFailure(code: string): (reason: unknown) => boolean {
  return (reason) => reason instanceof Failure && reason.code === code;
}
