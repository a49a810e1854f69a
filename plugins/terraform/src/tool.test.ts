import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Failure, type RunResult } from "@exclave/plugin-sdk";
import { findTool, type ToolName } from "./tool.ts";

describe("findTool", () => {
  test("takes terraform first, then tofu", async () => {
    assert.equal(
      (await findTool(machine("tofu", "terraform"), { wish: "auto" })).name,
      "terraform",
    );
    assert.deepEqual(await findTool(machine("tofu"), { wish: "auto" }), {
      name: "tofu",
      version: "1.2.3",
    });
  });

  test("stays with the one that wrote the state", async () => {
    const both = machine("tofu", "terraform");

    assert.equal((await findTool(both, { wish: "auto", wrote: "tofu" })).name, "tofu");
    await assert.rejects(
      findTool(machine("tofu"), { wish: "auto", wrote: "terraform", built: "terraform" }),
      isFailure(
        "unavailable",
        /^terraform, which wrote this component's state, is not on the PATH/,
      ),
    );
    await assert.rejects(
      findTool(both, { wish: "tofu", wrote: "terraform" }),
      isFailure("conflict", /written by terraform and the component now asks for tofu/),
    );
  });

  test("stays with the one that built the artifact, and says what to do where it is missing", async () => {
    const both = machine("tofu", "terraform");

    assert.equal((await findTool(both, { wish: "auto", built: "tofu" })).name, "tofu");
    await assert.rejects(
      findTool(machine("tofu"), { wish: "auto", built: "terraform" }),
      isFailure(
        "unavailable",
        /^this was built with terraform, which is not on the PATH of this machine; install it, or say tool: tofu and build again$/,
      ),
    );
  });

  test("refuses an artifact of one on the state of the other", async () => {
    await assert.rejects(
      findTool(machine("tofu", "terraform"), { wish: "auto", wrote: "tofu", built: "terraform" }),
      isFailure("conflict", /written by tofu and this was built with terraform; say tool: tofu/),
    );
  });

  test("obeys a wish before it asks what built the artifact", async () => {
    const both = machine("tofu", "terraform");

    assert.equal((await findTool(both, { wish: "tofu", built: "terraform" })).name, "tofu");
  });

  test("says what is missing", async () => {
    await assert.rejects(
      findTool(machine(), { wish: "auto" }),
      isFailure("unavailable", /^terraform or tofu is not on/),
    );
    await assert.rejects(
      findTool(machine("tofu"), { wish: "terraform" }),
      isFailure("unavailable", /^terraform is not on/),
    );
  });

  test("does not take a broken tool for a missing one", async () => {
    const run = async () => Promise.reject(new Failure("tool", "tofu was ended by SIGSEGV"));

    await assert.rejects(findTool({ run }, { wish: "auto" }), /SIGSEGV/);
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

function isFailure(code: string, message: RegExp): (reason: unknown) => boolean {
  return (reason) => {
    assert.ok(reason instanceof Failure, String(reason));
    assert.equal(reason.code, code);
    assert.match(reason.message, message);
    return true;
  };
}
