import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import { createRedactor, leavesOf, REDACTED, redact } from "./redact.ts";

const secret = 'p4ss"w/rd é+?';

describe("redaction", () => {
  const SPELLINGS: Record<string, string> = {
    "as it is": secret,
    "inside JSON": JSON.stringify({ password: secret }),
    "inside JSON inside JSON": JSON.stringify(JSON.stringify({ password: secret })),
    "in a URL": `https://host/?p=${encodeURIComponent(secret)}`,
    "in a form": `p=${encodeURIComponent(secret).replaceAll("%20", "+")}`,
    "in base64": Buffer.from(secret).toString("base64"),
    "in base64 for URLs": Buffer.from(secret).toString("base64url"),
    "in a basic-auth header": `Basic ${Buffer.from(`user:${secret}`).toString("base64")}`,
  };
  for (const [where, line] of Object.entries(SPELLINGS)) {
    test(`takes a secret out ${where}`, () => {
      const shown = redact(line, [secret]);

      assert.ok(shown.includes(REDACTED), shown);
      assert.ok(!shown.includes("p4ss"), shown);
    });
  }

  test("leaves the rest of the line as it was", () => {
    assert.equal(redact("a hunter22 b hunter22", ["hunter22"]), "a [redacted] b [redacted]");
    assert.equal(redact("nothing here", ["hunter22"]), "nothing here");
  });

  test("ignores values too short to be a secret", () => {
    assert.equal(redact("on port 12345", ["12345", ""]), "on port 12345");
  });

  test("leaves no rest of overlapping secrets", () => {
    assert.equal(redact("abcdefghij", ["abcdef", "defghij"]), REDACTED);
    assert.equal(redact("abcdefghij", ["abcdef", "abcdefghij"]), REDACTED);
  });

  test("knows each line of a secret of several lines", () => {
    const key = "-----BEGIN KEY-----\nMC4CAQAwBQ\n-----END KEY-----";

    assert.equal(redact("  MC4CAQAwBQ", [key]), `  ${REDACTED}`);
  });

  test("is not confused by its own words", () => {
    assert.equal(redact("say hunter22", ["hunter22", "redacted"]), `say ${REDACTED}`);
  });

  test("never shows a secret, wherever it stands, plain or in base64", () => {
    const value = fc.string({ minLength: 6, maxLength: 40, unit: "grapheme-ascii" });
    fc.assert(
      fc.property(value, fc.string(), fc.string(), (hidden, before, after) => {
        const show = createRedactor([hidden]);
        const whole = before + hidden + after;

        assert.ok(!show(whole).replaceAll(REDACTED, "\0").includes(hidden));
        const encoded = Buffer.from(whole).toString("base64");
        assert.notEqual(show(encoded), encoded);
      }),
    );
  });
});

describe("the leaves of a structured value", () => {
  const value = {
    user: "admin-of-it",
    keys: [{ secret: "s3cr3t-one" }, 1234567890, true, null, "abc"],
    file: JSON.stringify({
      private_key: "MC4CAQAwBQ",
      project: { id: 987654321 },
    }),
  };

  for (const leaf of ["admin-of-it", "s3cr3t-one", "1234567890", "MC4CAQAwBQ", "987654321"]) {
    test(`are redacted each by itself, wherever it stands: ${leaf}`, () => {
      const show = createRedactor(leavesOf(value).values);
      const spellings = [
        leaf,
        JSON.stringify({ a: leaf }),
        encodeURIComponent(leaf),
        Buffer.from(leaf).toString("base64"),
      ];

      for (const text of spellings) assert.ok(!show(`x ${text} y`).includes(text), text);
    });
  }

  test("leave out what is too short to be a secret", () => {
    assert.ok(!leavesOf(value).values.some((leaf) => ["abc", "true", "null"].includes(leaf)));
  });

  test("of a value that is too deep, or contains itself, end", () => {
    const deep = JSON.parse(`${"[".repeat(50_000)}${"]".repeat(50_000)}`);
    const circle: Record<string, unknown> = { a: "secret-a" };
    Object.assign(circle, { one: circle, two: circle });

    assert.ok(leavesOf(deep).depth > 64);
    assert.ok(leavesOf(circle).depth > 64);
  });

  test("that became known later are redacted from then on", () => {
    const show = createRedactor(["first-secret"]);
    const before = show("second-secret");
    show.add(["second-secret"]);

    assert.equal(before, "second-secret");
    assert.equal(show("first-secret second-secret"), `${REDACTED} ${REDACTED}`);
  });

  test("may be thousands, and a long line is still redacted", () => {
    const many = Array.from({ length: 5_000 }, (_, index) => `value-number-${index}-x`);
    const show = createRedactor(many);
    const line = `${"nothing to see here ".repeat(5_000)} value-number-4711-x`;

    assert.equal(show(line), `${"nothing to see here ".repeat(5_000)} ${REDACTED}`);
  });
});
