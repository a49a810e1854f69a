import assert from "node:assert/strict";
import { test } from "node:test";
import { parseLockFile, renderLockFile } from "./lock-file.ts";

const TEXT = `# This file is maintained automatically by "terraform init".
# Manual edits may be lost in future updates.

provider "registry.terraform.io/hashicorp/aws" {
  version     = "5.100.0"
  constraints = ">= 5.0.0, < 6.0.0"
  hashes = [
    "h1:Ijt7pOlB7Tr7maGQIqtsLFbl7pSMIj06TVdkoSBcYOw=",
    "zh:054b8dd49f0549c9a7cc27d159e45327b7b65cf404da5e5a20da154b90b8a644",
  ]
}

provider "registry.terraform.io/hashicorp/null" {
  version = "3.2.4" // pinned
  hashes  = []
}
`;

test("a lock file is read", () => {
  assert.deepEqual(parseLockFile(TEXT), [
    {
      address: "registry.terraform.io/hashicorp/aws",
      version: "5.100.0",
      constraints: ">= 5.0.0, < 6.0.0",
      hashes: [
        "h1:Ijt7pOlB7Tr7maGQIqtsLFbl7pSMIj06TVdkoSBcYOw=",
        "zh:054b8dd49f0549c9a7cc27d159e45327b7b65cf404da5e5a20da154b90b8a644",
      ],
    },
    { address: "registry.terraform.io/hashicorp/null", version: "3.2.4", hashes: [] },
  ]);
});

test("one with nothing but comments locks nothing", () => {
  assert.deepEqual(parseLockFile("# nothing\n\n"), []);
});

test("what is written reads as the same", () => {
  const providers = parseLockFile(TEXT);

  assert.deepEqual(parseLockFile(renderLockFile(providers.toReversed())), providers);
});

const bad: Record<string, [string, RegExp]> = {
  "is cut off": [TEXT.slice(0, 200), /expected|cannot be read/],
  "has no version": ['provider "a/b/c" {\n  hashes = []\n}', /a\/b\/c has no version/],
  "has something unknown": [
    'provider "a/b/c" {\n  colour = "red"\n}',
    /"colour", which is not known/,
  ],
  "is another language": ["<html>", /cannot be read at "<html>"/],
};
for (const [what, [text, message]] of Object.entries(bad)) {
  test(`one that ${what} is refused by name`, () => {
    assert.throws(() => parseLockFile(text), { code: "invalid", message });
    assert.throws(() => parseLockFile(text), /^Failure: \.terraform\.lock\.hcl: /);
  });
}
