import assert from "node:assert/strict";
import { test } from "node:test";
import { createBudget } from "../budget.ts";
import { matchesPattern } from "./match-pattern.ts";

const matches = (pattern: string, text: string, steps = 1_000_000) =>
  matchesPattern(pattern, text, createBudget(steps, "the test"));

test("agrees with the engine of the language on patterns that both know", () => {
  const patterns = [
    "abc",
    "^a.c$",
    "a|b|",
    "^(?:ab|cd)+$",
    "^[a-z][a-z0-9-]{0,5}$",
    "^[^a-c]*$",
    "(a*)*b",
    "(?<name>x)y?",
    "\\bfoo\\b",
    "\\Boo",
    "^\\d{2,4}-\\w+\\s?$",
    "[\\d.-]+$",
    "^\\u{1F600}$",
    "\\x41\\u0042",
    "^(?:|a)+$",
    "a{2}{",
    "^.$",
    "[]",
    "[^]",
    "^\\p{Lu}\\P{Lu}$",
    "x{0}y",
    "(?:a{0,2}){1,3}$",
    "^a{2,}$",
    "a+?b*?",
    "\\.\\*\\[\\]\\\\",
  ];
  const texts = [
    "",
    "a",
    "abc",
    "axc",
    "abcd",
    "cdab",
    "aaaa",
    "aaab",
    "xy",
    "foo bar",
    "food",
    "12-ab ",
    "1.2-3",
    "😀",
    "AB",
    "Éa",
    "a\nc",
    "aa{",
    ".*[]\\",
    "d",
    "-",
  ];

  for (const pattern of patterns) {
    const known = reference(pattern);
    for (const text of texts) {
      assert.equal(
        matches(pattern, text),
        known.test(text),
        `${pattern} on ${JSON.stringify(text)}`,
      );
    }
  }
});

test("agrees with the engine of the language on random patterns", () => {
  const dice = (seed: number) => () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  const roll = dice(20_261);
  const pick = <T>(of: readonly T[]): T => of[Math.floor(roll() * of.length)] as T;
  const pattern = (depth: number): string => {
    const part = () =>
      depth === 0 || roll() < 0.5
        ? pick(["a", "b", ".", "[ab]", "[^a]", "\\w", "^", "$", "\\b"])
        : `(?:${pattern(depth - 1)})${pick(["", "*", "+", "?", "{2}", "{1,3}", "{0,2}?"])}`;
    const parts = Array.from({ length: 1 + Math.floor(roll() * 3) }, part).join("");
    return roll() < 0.3 ? `${parts}|${part()}` : parts;
  };

  for (let n = 0; n < 3_000; n++) {
    const source = pattern(3);
    const text = Array.from({ length: Math.floor(roll() * 8) }, () => pick(["a", "b", " "])).join(
      "",
    );
    assert.equal(matches(source, text), reference(source).test(text), `${source} on "${text}"`);
  }
});

test("takes time that grows with the text, for patterns that make others backtrack for ever", () => {
  for (const pattern of ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]$"]) {
    const text = `${"ax".repeat(5_000)}!`;
    assert.equal(matches(pattern, text, 2_000_000), false, pattern);
  }
});

test("refuses what cannot be matched in bounded time, and what is too large", () => {
  for (const pattern of ["(a)\\1", "(?=a)b", "(?!a)b", "(?<=a)b", "(?<!a)b", "(?<x>a)\\k<x>"]) {
    assert.throws(() => matches(pattern, "a"), { code: "invalid" }, pattern);
  }
  for (const pattern of [
    "a".repeat(1_001),
    "(a{100}){100}",
    "((((){900}){900}){900})",
    "a{999}{2}",
  ]) {
    assert.throws(() => matches(pattern, "a"), /at most|nothing to repeat/, pattern);
  }
  assert.throws(() => matches(`${"(".repeat(50)}a${")".repeat(50)}`, "a"), { code: "invalid" });
  for (const pattern of ["(", ")", "[", "a**", "*", "\\", "[z-a]", "a{3,2}", "\\q", "(?i)a"]) {
    assert.throws(() => matches(pattern, "a"), { code: "invalid" }, pattern);
  }
});

test("a budget ends the work, whatever the text", () => {
  assert.throws(() => matches("(a|b|c)*d", "abc".repeat(10_000), 1_000), { code: "too_large" });
});

/** Without the flag where the pattern uses what the flag forbids. */
function reference(pattern: string): RegExp {
  return pattern.includes("{2}{") ? new RegExp(pattern) : new RegExp(pattern, "u");
}
