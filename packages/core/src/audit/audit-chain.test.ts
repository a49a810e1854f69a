import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import { Instant } from "../ids.ts";
import {
  type AuditHead,
  type AuditRecord,
  appendAudit,
  EMPTY_CHAIN,
  verifyChain,
} from "./audit-chain.ts";

describe("an audit chain", () => {
  test("is whole as it was written, and knows its size and head", () => {
    const records = chain(3);

    assert.deepEqual(verifyChain(records), { kind: "ok", size: 3, head: records[2]?.hash });
    assert.deepEqual(verifyChain([]), { kind: "ok", ...EMPTY_CHAIN });
  });

  test("can be verified page by page", () => {
    const records = chain(5);
    const first = verifyChain(records.slice(0, 2));

    assert.equal(verifyChain(records.slice(2), { after: first as AuditHead }).kind, "ok");
  });

  test("shows the first record that was edited, in any of its fields", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4 }), anyEdit(), (index, edit) => {
        const records = chain(5).map((record, at) =>
          at === index ? { ...record, ...edit } : record,
        );

        const verdict = verifyChain(records);

        assert.equal(verdict.kind, "broken");
        assert.equal(verdict.kind === "broken" && verdict.seq, index + 1);
      }),
    );
  });

  test("shows where a record was taken out", () => {
    const records = chain(4).toSpliced(1, 1);

    assert.deepEqual(verifyChain(records), {
      kind: "broken",
      seq: 2,
      because: "record 2 is missing, 3 follows",
    });
  });

  test("shows an edit whose own hash was made to fit, at the record after it", () => {
    const [first, second, third] = chain(3) as [AuditRecord, AuditRecord, AuditRecord];
    const forged = appendAudit({ size: 1, head: first.hash }, { ...second, actor: "mallory" });

    const verdict = verifyChain([first, forged, third]);

    assert.deepEqual(verdict, {
      kind: "broken",
      seq: 3,
      because: "it does not follow from the record before it",
    });
  });

  test("shows a chain that is whole but is not the one seen before", () => {
    const seen = { size: 2, head: chain(2)[1]?.hash ?? "" };

    const rewritten = verifyChain(chain(3, "mallory"), { checkpoints: [seen] });
    const shortened = verifyChain(chain(1), { checkpoints: [seen] });

    assert.equal(rewritten.kind === "broken" && rewritten.seq, 2);
    assert.equal(shortened.kind === "broken" && shortened.seq, 2);
    assert.equal(verifyChain(chain(3), { checkpoints: [seen] }).kind, "ok");
  });
});

function chain(length: number, actor = "ada"): AuditRecord[] {
  const records: AuditRecord[] = [];
  let head = EMPTY_CHAIN;
  for (let index = 0; index < length; index++) {
    const record = appendAudit(head, {
      at: Instant.parse(1_000 + index),
      actor,
      action: "install.create",
      subject: `install-${index}`,
      details: { index },
    });
    records.push(record);
    head = { size: record.seq, head: record.hash };
  }
  return records;
}

function anyEdit(): fc.Arbitrary<Partial<AuditRecord>> {
  return fc.oneof(
    fc.constant({ actor: "mallory" }),
    fc.constant({ action: "install.destroy" }),
    fc.constant({ subject: "other" }),
    fc.constant({ at: Instant.parse(7) }),
    fc.constant({ details: { index: "other" } }),
    fc.constant({ prevHash: "f".repeat(64) }),
    fc.constant({ hash: "f".repeat(64) }),
    fc.constant({ seq: 77 }),
  );
}
