import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Failure } from "@exclave/core";
import { z } from "zod";
import { acceptManifest, MEDIA_TYPES, parseManifest } from "./descriptor.ts";
import { digestOf } from "./digest.ts";

const BYTES_MAX = 4 * 1024 * 1024;
const EMPTY = { mediaType: MEDIA_TYPES.empty, digest: digestOf("{}"), size: 2 };

function bytesOf(fields: object): Buffer {
  return Buffer.from(JSON.stringify({ schemaVersion: 2, ...fields }));
}

/** As many of an element as fit into the largest manifest. */
function fill<T>(element: T): T[] {
  return Array<T>(Math.floor((BYTES_MAX - 500) / (JSON.stringify(element).length + 1))).fill(
    element,
  );
}

/** So many entries of a record. */
function record(value: unknown): object {
  return Object.fromEntries(Array.from({ length: 300_000 }, (_, at) => [at, value]));
}

function refusalOf(work: () => unknown): Failure {
  try {
    work();
  } catch (reason) {
    assert.ok(reason instanceof Failure);
    return reason;
  }
  return assert.fail("it was taken");
}

describe("a manifest of the largest size", () => {
  const image = { config: EMPTY, layers: [] };
  // biome-ignore format: a table reads as a table.
  const HOSTILE: [string, string, object][] = [
    ["wrong layers",             MEDIA_TYPES.manifest, { config: EMPTY, layers: fill({}) }],
    ["wrong manifests",          MEDIA_TYPES.index,    { manifests: fill(0) }],
    ["wrong annotations",        MEDIA_TYPES.manifest, { ...image, annotations: record(0) }],
    ["wrong annotations inside", MEDIA_TYPES.manifest, { ...image, config: { ...EMPTY, annotations: record(0) } }],
    ["wrong urls",               MEDIA_TYPES.manifest, { ...image, config: { ...EMPTY, urls: fill(0) } }],
    ["too many layers",          MEDIA_TYPES.manifest, { config: EMPTY, layers: fill(EMPTY) }],
    ["too many manifests",       MEDIA_TYPES.index,    { manifests: fill(EMPTY) }],
  ];
  for (const [what, mediaType, fields] of HOSTILE) {
    test(`with ${what} is refused at the first of them`, () => {
      const bytes = bytesOf(fields);

      const failure = refusalOf(() => acceptManifest(bytes, mediaType));

      assert.equal(failure.code, "invalid");
      // To collect all of them takes half a minute and gigabytes.
      if (failure.cause instanceof z.ZodError) assert.equal(failure.cause.issues.length, 1);
    });
  }
});

describe("acceptManifest", () => {
  const layers = [EMPTY];

  test("takes what says of itself what it comes as, or nothing", () => {
    const named = bytesOf({ mediaType: MEDIA_TYPES.manifest, config: EMPTY, layers });

    assert.equal(acceptManifest(named, MEDIA_TYPES.manifest).kind, "manifest");
    assert.equal(
      acceptManifest(bytesOf({ config: EMPTY, layers }), MEDIA_TYPES.manifest).kind,
      "manifest",
    );
    assert.equal(acceptManifest(bytesOf({ manifests: layers }), MEDIA_TYPES.index).kind, "index");
  });

  test("refuses what another reader could take for something else", () => {
    const named = bytesOf({ mediaType: MEDIA_TYPES.index, config: EMPTY, layers });
    const both = bytesOf({ config: EMPTY, layers, manifests: [] });

    assert.throws(
      () => acceptManifest(named, MEDIA_TYPES.manifest),
      /unclear what this manifest is/,
    );
    assert.throws(() => acceptManifest(both, MEDIA_TYPES.manifest), /none both/);
    assert.throws(() => acceptManifest(both, MEDIA_TYPES.index), /none both/);
  });

  test("what was taken in before this was asked can still be read", () => {
    const both = bytesOf({ mediaType: MEDIA_TYPES.index, config: EMPTY, layers, manifests: [] });

    assert.equal(parseManifest(both, MEDIA_TYPES.manifest).kind, "manifest");
  });
});
