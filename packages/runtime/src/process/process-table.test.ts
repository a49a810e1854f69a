import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { describe, test } from "node:test";
import {
  createSessionWatch,
  identify,
  isAlive,
  procTable,
  psTable,
  sessionMembers,
  signalSession,
} from "./process-table.ts";

const tables = { procTable, psTable };

for (const [name, table] of Object.entries(tables)) {
  describe(name, { skip: name === "procTable" && !existsSync("/proc/self/stat") }, () => {
    test("finds this process, and its memory", () => {
      const self = identify(table, process.pid);

      assert.ok(self);
      assert.ok(isAlive(table, self));
      assert.ok(table.residentBytes([process.pid]) > 1024 * 1024);
      assert.ok(table.proportionalBytes([process.pid]) > 1024 * 1024);
    });

    test("does not take another process with the same pid, or another boot, for this one", () => {
      const self = identify(table, process.pid);
      assert.ok(self);

      assert.ok(!isAlive(table, { ...self, startTime: "another" }));
      assert.ok(!isAlive(table, { ...self, bootId: "another" }));
      assert.deepEqual(sessionMembers(table, { ...self, startTime: "another" }), []);
      assert.deepEqual(sessionMembers(table, { ...self, bootId: "another" }), []);
    });

    test("finds and signals everything in a session", async () => {
      const script = "sleep 60 & echo ready; wait";
      const leader = spawn("/bin/sh", ["-c", script], {
        detached: true,
        stdio: ["ignore", "pipe", "ignore"],
      });
      await once(leader.stdout, "data");
      const identity = identify(table, leader.pid ?? 0);
      assert.ok(identity);
      const before = sessionMembers(table, identity).length;
      const watch = createSessionWatch(table, identity, () => 0);
      const watched = [watch().length, watch().length];

      const exit = once(leader, "exit");
      signalSession(table, identity, "SIGKILL");
      await exit;

      assert.equal(before, 2);
      assert.deepEqual(watched, [2, 2]);
      assert.ok(!isAlive(table, identity));
    });
  });
}
