import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  certificateEnd,
  isOthers,
  judgeCertificate,
  type PresentedCertificate,
  renewAt,
} from "./certificate-rules.ts";

const NOW = Date.UTC(2030, 0, 1);
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const AGENT = { id: "a1", audience: "i1", identityKey: "key" };

function shown(changes: Partial<Extract<PresentedCertificate, { kind: "ours" }>> = {}) {
  const until = NOW + DAY_MS;
  const whose = { agent: "a1", audience: "i1", keyGeneration: 1, identityKey: "key" };
  return { kind: "ours", ...whose, notAfter: until, ...changes } as const;
}

function judge(
  presented: PresentedCertificate,
  { until, canRenew = true }: { readonly until?: number; readonly canRenew?: boolean } = {},
) {
  const agent = { ...AGENT, certificateUntil: until };
  return judgeCertificate(presented, agent, { canRenew, now: NOW });
}

describe("a connection's certificate", () => {
  test("that is the agent's and has not ended lets it in", () => {
    assert.deepEqual(judge(shown()), { kind: "in", until: NOW + DAY_MS });
  });

  test("that has ended is replaced for 90 days, and no longer", () => {
    const ended = (days: number) => judge(shown({ notAfter: NOW - days * DAY_MS }));

    assert.equal(judge(shown({ notAfter: NOW })).kind, "renew");
    assert.deepEqual(ended(89), { kind: "renew", because: "its certificate has expired" });
    const late = ended(90);
    assert.equal(late.kind, "refuse");
    assert.match("because" in late ? late.because : "", /ended 90 days ago.* join anew/);
  });

  test("that is missing or by somebody else counts for nothing: the key gets one of ours", () => {
    assert.deepEqual(judge({ kind: "none" }, { until: NOW + HOUR_MS }), {
      kind: "renew",
      because: "it shows no certificate",
    });
    assert.deepEqual(judge({ kind: "foreign" }, { until: NOW - DAY_MS }), {
      kind: "renew",
      because: "its certificate is not by this server",
    });
    assert.equal(judge({ kind: "foreign" }, { until: NOW - 91 * DAY_MS }).kind, "refuse");
  });

  test("of an earlier key does not let in, however long it is for", () => {
    assert.deepEqual(judge(shown({ identityKey: "earlier" }), { until: NOW + DAY_MS }), {
      kind: "renew",
      because: "its certificate is of an earlier key",
    });
  });

  test("is not asked of an agent from before there were any, and of every other", () => {
    assert.deepEqual(judge({ kind: "none" }, { canRenew: false }), { kind: "exempt" });
    assert.equal(judge({ kind: "none" }, { canRenew: false, until: NOW + 1 }).kind, "refuse");
    assert.equal(judge({ kind: "none" }).kind, "renew");
  });

  test("of another agent or another install is somebody else's", () => {
    assert.equal(isOthers(shown(), AGENT), false);
    assert.equal(isOthers(shown({ agent: "a2" }), AGENT), true);
    assert.equal(isOthers(shown({ audience: "i2" }), AGENT), true);
    assert.equal(isOthers({ kind: "none" }, AGENT), false);
  });
});

test("the next certificate is due at about two thirds of a day, not for all agents at once", () => {
  const until = certificateEnd(NOW);
  const ages = Array.from(
    { length: 100 },
    (_, n) => (renewAt(until, `agent-${n}`) - NOW) / HOUR_MS,
  );

  assert.ok(
    ages.every((hours) => hours >= 14 && hours <= 16),
    ages.join(" "),
  );
  assert.ok(new Set(ages).size > 50, "spread over two hours");
});
