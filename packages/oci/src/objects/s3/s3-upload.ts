// A large object on its way into the store, in parts: one is sent while the next fills. What fits one part is written at
// once and never begins an upload that somebody would have to give up.

import { Failure } from "@exclave/core";
import type { ObjectUpload, UploadOptions } from "../object-store.ts";
import type { S3Exchange } from "./s3-exchange.ts";
import { elementIn, encode } from "./s3-xml.ts";

/** S3 wants 5 MiB at least, and 10,000 parts at most. */
const PART_BYTES = 8 * 1024 * 1024;
const PARTS_MAX = 10_000;

export function partBytes({ sizeBytes = 0 }: UploadOptions): number {
  const needed = Math.ceil(sizeBytes / (PARTS_MAX - 1));
  return Math.max(PART_BYTES, needed);
}

export function createS3Upload(
  exchange: Pick<S3Exchange, "send">,
  key: string,
  options: UploadOptions,
): ObjectUpload {
  const size = partBytes(options);
  const etags: string[] = [];
  let waiting: Uint8Array[] = [];
  let waitingBytes = 0;
  let uploadId: string | undefined;
  let sending: Promise<void> = Promise.resolve();

  return { write, complete, abort };

  async function write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; ) {
      const piece = bytes.subarray(at, at + size - waitingBytes);
      // Whoever hands it over may use it again.
      waiting.push(Buffer.from(piece));
      waitingBytes += piece.length;
      at += piece.length;
      if (waitingBytes === size) await handOn();
    }
  }

  async function handOn(): Promise<void> {
    const part = take();
    await sending;
    sending = sendPart(part);
    // Looked at by whoever comes next; until then a failure is nobody's.
    sending.catch(() => undefined);
  }

  function take(): Buffer {
    const part = Buffer.concat(waiting);
    waiting = [];
    waitingBytes = 0;
    return part;
  }

  async function sendPart(body: Buffer): Promise<void> {
    uploadId ??= await begin();
    const partNumber = String(etags.length + 1);
    if (etags.length === PARTS_MAX) throw new Failure("too_large", `${key} has too many parts`);
    const answer = await exchange.send({
      method: "PUT",
      key,
      query: { partNumber, uploadId },
      body,
    });
    etags.push(answer.headers.etag ?? "");
  }

  async function begin(): Promise<string> {
    const answer = await exchange.send({ method: "POST", key, query: { uploads: "" } });
    const id = elementIn(answer.body.toString("utf8"), "UploadId");
    if (!id) throw new Failure("unavailable", "the object store began an upload without an id");
    return id;
  }

  async function complete(): Promise<void> {
    await sending;
    const last = take();
    if (uploadId === undefined) {
      await exchange.send({ method: "PUT", key, body: last });
      return;
    }
    if (last.length > 0) await sendPart(last);
    const parts = etags.map(
      (etag, index) =>
        `<Part><PartNumber>${index + 1}</PartNumber><ETag>${encode(etag)}</ETag></Part>`,
    );
    const body = Buffer.from(
      `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`,
    );
    const headers = { "content-type": "application/xml" };
    const { status } = await exchange.send({
      method: "POST",
      key,
      query: { uploadId },
      headers,
      body,
      expect: [404],
    });
    // An answer that was lost: the retry finds the upload gone, because it is done.
    // Whatever is written under one key is always the same.
    if (status === 404) await checkCompleted(exchange, key);
  }

  async function abort(): Promise<void> {
    await sending.catch(() => undefined);
    take();
    if (uploadId === undefined) return;
    await exchange.send({ method: "DELETE", key, query: { uploadId }, expect: [404] });
    uploadId = undefined;
  }
}

async function checkCompleted(exchange: Pick<S3Exchange, "send">, key: string): Promise<void> {
  const { status } = await exchange.send({ method: "HEAD", key, expect: [404] });
  if (status !== 404) return;
  throw new Failure("unavailable", "the object store has given up an upload under way");
}
