// Objects in an S3-compatible store.

import { Failure } from "@exclave/core";
import type { ObjectEntry, ObjectHead, ObjectStore } from "../object-store.ts";
import { createS3Exchange, type S3ExchangeOptions } from "./s3-exchange.ts";
import type { S3Answer } from "./s3-failure.ts";
import { createS3Upload } from "./s3-upload.ts";
import { elementIn, elementsIn } from "./s3-xml.ts";

export interface S3ObjectStore extends ObjectStore {
  /** Its bucket and prefix. */
  readonly place: string;
  /** Fails with a sentence that says why, unless the store can be used. */
  check(): Promise<void>;
  close(): void;
}

/** A list has a thousand entries a page: this many pages are more than any server keeps under a prefix. */
const PAGES_MAX = 10_000;

export function createS3ObjectStore(options: S3ExchangeOptions): S3ObjectStore {
  const exchange = createS3Exchange(options);
  const { prefix } = options.settings;
  const at = (key: string) => prefix + key;

  return {
    place: `s3://${options.settings.bucket}/${prefix}`,

    async head(key) {
      const answer = await exchange.send({ method: "HEAD", key: at(key), expect: [404] });
      return answer.status === 404 ? undefined : headOf(answer);
    },

    async read(key, range) {
      const headers = range && { range: `bytes=${range.from}-${range.to}` };
      const asked = {
        method: "GET",
        key: at(key),
        expect: [404],
        ...(headers && { headers }),
      } as const;
      const { status, body } = await exchange.send(asked);
      if (status !== 404) return body;
      checkBucket(body);
      return undefined;
    },

    async write(key, bytes) {
      await exchange.send({ method: "PUT", key: at(key), body: bytes });
    },

    async remove(key) {
      await exchange.send({ method: "DELETE", key: at(key), expect: [404] });
    },

    async *list(below) {
      for await (const page of pages({ prefix: at(below) })) {
        for (const one of elementsIn(page, "Contents")) yield entryOf(one, prefix);
      }
    },

    async folders(below) {
      const names: string[] = [];
      for await (const page of pages({ prefix: at(below), delimiter: "/" })) {
        for (const one of elementsIn(page, "CommonPrefixes")) {
          const name = elementIn(one, "Prefix")?.slice(at(below).length, -1);
          if (name) names.push(name);
        }
      }
      return names;
    },

    upload: (key, upload = {}) => createS3Upload(exchange, at(key), upload),

    async abortUploads(below, before) {
      const query = { uploads: "", prefix: at(below), "max-uploads": "1000" };
      const { body } = await exchange.send({ method: "GET", query });
      let aborted = 0;
      for (const one of elementsIn(body.toString("utf8"), "Upload")) {
        const key = elementIn(one, "Key");
        const uploadId = elementIn(one, "UploadId");
        const begunAt = Date.parse(elementIn(one, "Initiated") ?? "");
        // One whose age is not told stays.
        if (!key?.startsWith(at(below)) || !uploadId || !(begunAt < before)) continue;
        await exchange.send({ method: "DELETE", key, query: { uploadId }, expect: [404] });
        aborted++;
      }
      return aborted;
    },

    async check() {
      const query = { "list-type": "2", prefix, "max-keys": "1" };
      await exchange.send({ method: "GET", query });
    },

    close: () => exchange.close(),
  };

  async function* pages(query: Record<string, string>): AsyncIterable<string> {
    let token: string | undefined;
    for (let page = 0; page < PAGES_MAX; page++) {
      const next = token === undefined ? {} : { "continuation-token": token };
      const asked = { "list-type": "2", ...query, ...next };
      const { body } = await exchange.send({ method: "GET", query: asked });
      const text = body.toString("utf8");
      yield text;
      token = elementIn(text, "NextContinuationToken");
      if (elementIn(text, "IsTruncated") !== "true" || token === undefined) return;
    }
    throw new Failure("unavailable", "the object store's list does not end");
  }
}

/** A bucket that is gone is not an object that was never there. */
function checkBucket(body: Buffer): void {
  if (elementIn(body.toString("utf8"), "Code") !== "NoSuchBucket") return;
  throw new Failure("unavailable", "the object store's bucket is gone");
}

function headOf({ headers }: S3Answer): ObjectHead {
  return {
    sizeBytes: Number(headers["content-length"] ?? 0),
    modifiedAt: Date.parse(headers["last-modified"] ?? "") || 0,
  };
}

function entryOf(xml: string, prefix: string): ObjectEntry {
  const key = elementIn(xml, "Key") ?? "";
  return {
    key: key.slice(prefix.length),
    sizeBytes: Number(elementIn(xml, "Size")),
    modifiedAt: Date.parse(elementIn(xml, "LastModified") ?? "") || 0,
  };
}
