// What every journal promises, as tests: what was committed is there after it is opened again, and a
// commit that fails leaves nothing.

import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { type Digest, digestOf, jobName } from "@exclave/core";
import { type Journal, type JournalWrite, SETTLED_KEPT_MAX } from "../journal/journal.ts";
import { type KeptStatement, STATEMENTS_MAX } from "../journal/release-memory.ts";
import { job, recordOf } from "./builders.ts";

export interface JournalUnderTest {
  readonly journal: Journal;
  /** What a later life of the agent would see. */
  readonly reopen: () => Journal;
}

export function describeJournal(
  name: string,
  create: (t: TestContext) => Promise<JournalUnderTest>,
): void {
  const event = (seq: number): JournalWrite => ({
    kind: "event",
    seq,
    body: { type: "alarm", at: seq, code: "test", because: `event ${seq}` },
  });

  describe(`${name} keeps the journal contract`, () => {
    test("is fresh until something is committed", async (t) => {
      const { journal, reopen } = await create(t);
      assert.equal(journal.load().fresh, true);

      journal.commit([{ kind: "down_acked", seq: 1 }]);

      assert.equal(reopen().load().fresh, false);
    });

    test("keeps its id, both sequences and the last issue number", async (t) => {
      const { journal, reopen } = await create(t);
      journal.commit([{ kind: "down_acked", seq: 4 }, event(1), event(2)]);
      journal.commit([
        { kind: "issue", issueNo: 9 },
        { kind: "events_acked", upTo: 1 },
      ]);

      const { journalId, downAcked, upHead, upAcked, issueNo, events } = reopen().load();

      assert.equal(journalId, journal.load().journalId);
      assert.deepEqual(
        { downAcked, upHead, upAcked, issueNo },
        { downAcked: 4, upHead: 2, upAcked: 1, issueNo: 9 },
      );
      assert.deepEqual(
        events.map(({ seq }) => seq),
        [2],
      );
    });

    test("remembers the head of a sequence whose events were all acknowledged", async (t) => {
      const { journal, reopen } = await create(t);
      journal.commit([event(1)]);
      journal.commit([{ kind: "events_acked", upTo: 1 }]);

      const { upHead, events } = reopen().load();

      assert.deepEqual({ upHead, events }, { upHead: 1, events: [] });
    });

    test("keeps jobs as they were last written, in the order they came", async (t) => {
      const { journal, reopen } = await create(t);
      const first = recordOf(job("first"));
      const second = recordOf(job("second"));
      journal.commit([
        { kind: "job", record: first },
        { kind: "job", record: second },
        { kind: "job_secrets", name: first.name, secrets: ["s3cret"] },
      ]);
      journal.commit([{ kind: "job", record: { ...first, status: "launching", launches: 1 } }]);

      const { jobs } = reopen().load();

      assert.deepEqual(jobs, [{ ...first, status: "launching", launches: 1 }, second]);
      assert.deepEqual(reopen().jobSecrets(first.name), ["s3cret"]);
    });

    test("forgets a removed job and what was secret about it, and never that it was accepted", async (t) => {
      const { journal, reopen } = await create(t);
      const record = recordOf(job());
      journal.commit([
        { kind: "job", record },
        { kind: "job_secrets", name: record.name, secrets: ["s3cret"] },
      ]);

      journal.commit([{ kind: "job_removed", name: record.name }]);

      assert.deepEqual(reopen().load().jobs, []);
      assert.deepEqual(reopen().load().settled, [record.name]);
      assert.deepEqual(reopen().jobSecrets(record.name), []);
    });

    test("remembers the newest of what has ended, in order, and no more than a number", async (t) => {
      const { journal, reopen } = await create(t);
      const template = recordOf(job());
      const names = Array.from({ length: SETTLED_KEPT_MAX + 3 }, (_, n) =>
        jobName(template.manifest.id, n + 1),
      );

      journal.commit(
        names.flatMap((name) => [
          { kind: "job", record: { ...template, name } },
          { kind: "job_removed", name },
        ]),
      );

      assert.deepEqual(reopen().load().settled, names.slice(3));
    });

    test("keeps schedule, outputs, secrets and foreign jobs", async (t) => {
      const { journal, reopen } = await create(t);
      const manifest = job();
      const { name } = recordOf(manifest);
      const entry = { component: "api", everyMs: 1_000, manifest };
      const outputs = [{ name: "url", value: { a: [1] }, sensitive: true }];
      journal.commit([
        { kind: "schedule", entry },
        { kind: "outputs", component: "api", outputs },
        { kind: "secret", name: "session", value: "v" },
        { kind: "foreign", names: [name] },
      ]);

      const again = reopen();

      assert.deepEqual(again.load().schedule, [entry]);
      assert.deepEqual(again.load().foreign, [name]);
      assert.deepEqual(again.load().settled, [name], "its offer is never accepted");
      assert.deepEqual([...again.outputs()], [["api", outputs]]);
      assert.equal(again.secret("session"), "v");
      again.commit([
        { kind: "schedule_removed", component: "api" },
        { kind: "outputs_removed", component: "api" },
      ]);
      assert.deepEqual(reopen().load().schedule, []);
      assert.equal(reopen().outputs().size, 0);
    });

    test("keeps statements, floors and what each component is deployed from", async (t) => {
      const { journal, reopen } = await create(t);
      const [one, two] = [digestOf("one"), digestOf("two")];
      const api = { install: "acme", component: "api" };
      journal.commit([
        statement(one),
        { kind: "release_floor", install: "acme", number: 1, numberMin: 1, index: one },
        { kind: "deploying", ...api, index: one },
        { kind: "deployed", ...api, index: one },
      ]);
      journal.commit([
        statement(two),
        { kind: "release_floor", install: "acme", number: 2, numberMin: 1, index: two },
        { kind: "deploying", ...api, index: two },
        { kind: "deployed", install: "globex", component: "api", index: one },
      ]);

      const again = reopen();

      const { kind: _, ...kept } = statement(one);
      assert.deepEqual(again.statement(one), kept);
      assert.equal(again.statement(digestOf("three")), undefined);
      assert.deepEqual(
        again.statements().map(({ index }) => index),
        [two, one],
      );
      assert.deepEqual(again.releases("acme").floor, { number: 2, numberMin: 1 });
      assert.deepEqual([...again.releases("acme").deployed], [["api", [one, two]]]);
      assert.deepEqual(again.releases("initech"), { deployed: new Map() });
      again.commit([{ kind: "undeployed", ...api }]);
      assert.equal(reopen().releases("acme").deployed.size, 0);
      reopen().commit([{ kind: "release_forgotten", install: "acme" }]);
      assert.deepEqual(reopen().releases("acme"), { deployed: new Map() });
      assert.deepEqual([...reopen().releases("globex").deployed], [["api", [one]]]);
    });

    test("keeps so many statements, and those that something is deployed from", async (t) => {
      const { journal, reopen } = await create(t);
      const used = digestOf("used");
      journal.commit([
        statement(used),
        { kind: "deployed", install: "acme", component: "api", index: used },
      ]);

      const digests = Array.from({ length: STATEMENTS_MAX + 5 }, (_, at) => digestOf({ at }));
      for (const digest of digests) journal.commit([statement(digest)]);

      const kept = reopen()
        .statements()
        .map(({ index }) => index);
      assert.deepEqual(kept, [...digests.slice(5).toReversed(), used]);
    });

    test("starts both sequences anew and keeps what was not acknowledged", async (t) => {
      const { journal, reopen } = await create(t);
      const told = { ...recordOf(job("told")), status: "ended" as const, endedSeq: 2 };
      const untold = { ...recordOf(job("untold")), status: "ended" as const, endedSeq: 3 };
      journal.commit([event(1), event(2), event(3), { kind: "down_acked", seq: 7 }]);
      journal.commit([
        { kind: "job", record: told },
        { kind: "job", record: untold },
        { kind: "events_acked", upTo: 2 },
      ]);

      journal.commit([{ kind: "restart", journalId: "another" }]);

      const { journalId, downAcked, upHead, upAcked, events, jobs } = reopen().load();
      assert.deepEqual(
        { journalId, downAcked, upHead, upAcked },
        { journalId: "another", downAcked: 0, upHead: 1, upAcked: 0 },
      );
      assert.deepEqual(
        events.map(({ seq, body }) => [seq, body.type === "alarm" && body.because]),
        [[1, "event 3"]],
      );
      assert.deepEqual(jobs, [
        { ...told, endedSeq: 0 },
        { ...untold, endedSeq: 1 },
      ]);
    });
  });
}

function statement(index: Digest): { readonly kind: "statement" } & KeptStatement {
  const payloadType = "application/vnd.in-toto+json";
  const envelope = { payloadType, payload: "e30=", signatures: [{ sig: "e30=" }] } as const;
  const kept = { ...envelope, signatures: [...envelope.signatures] };
  return { kind: "statement", index, artifact: digestOf({ index }), envelope: kept };
}
