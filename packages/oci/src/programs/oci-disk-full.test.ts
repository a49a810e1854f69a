// The program on a disk that is too small: a few hundred kilobytes of memory, mounted for it alone.

import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { temporaryDirectory } from "../testing/temporary-directory.ts";

const PROGRAM = join(import.meta.dirname, "oci-main.ts");
const ALONE = ["--map-root-user", "--mount"];
const MOUNT = 'mount -t tmpfs -o size=256k none "$1" && shift && exec "$@"';
const isAbsent = spawnSync("unshare", [...ALONE, "sh", "-c", MOUNT, "-", "/mnt", "true"]).status;
const skip = isAbsent !== 0 ? "nobody may mount a small disk here" : false;

async function world(t: TestContext) {
  const directory = await temporaryDirectory(t);
  const small = join(directory, "small");
  await mkdir(small);
  await mkdir(join(directory, "files"));
  await writeFile(join(directory, "files", "large"), randomBytes(1_000_000));
  const env = { PATH: process.env["PATH"] ?? "", HOME: "/nowhere" };
  /** With `small` as a small disk, and temporary files where they are told to be. */
  const run = (temporary: string, ...args: string[]) => {
    const program = [process.execPath, PROGRAM, ...args];
    const command = [...ALONE, "sh", "-c", MOUNT, "-", small, ...program];
    return new Promise<{ code: unknown; stderr: string }>((resolve) => {
      execFile("unshare", command, { env: { ...env, TMPDIR: temporary } }, (reason, _, stderr) =>
        resolve({ code: reason ? reason.code : 0, stderr }),
      );
    });
  };
  return { directory, small, files: join(directory, "files"), run };
}

describe("a full disk", { skip }, () => {
  test("is what is said of it, wherever the room ends", async (t) => {
    const { directory, small, files, run } = await world(t);
    const archive = `oci-archive:${join(directory, "large.tar")}`;
    assert.equal((await run(directory, "push", archive, files)).code, 0);

    for (const [temporary, ...args] of [
      [small, "inspect", archive],
      [small, "push", `oci:${join(directory, "layout")}`, files],
      [small, "copy", archive, `oci-archive:${join(directory, "again.tar")}`],
      [directory, "copy", archive, `oci-archive:${join(small, "again.tar")}`],
      [directory, "copy", archive, `oci:${join(small, "layout")}`],
      [directory, "pull", archive, join(small, "out")],
    ] as const) {
      const { code, stderr } = await run(temporary, ...args);

      assert.equal(code, 1, `${args.join(" ")}: ${stderr}`);
      assert.match(stderr, /^error: there is no room left .*\n {2}.*TMPDIR/, args.join(" "));
    }
    assert.deepEqual(
      (await readdir(directory)).filter((name) => name.includes("again")),
      [],
    );
  });
});
