// The head of a plain HTTP/1.1 exchange: the request's as it is sent, the answer's as it is read.

import { Failure } from "@exclave/core";

export interface Head {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

const HEAD_END = "\r\n\r\n";
const HEAD_BYTES_MAX = 64 * 1024;

/** Collects the bytes of an answer until its head is whole. */
export interface HeadBuffer {
  /** Takes bytes that may end the head; false when there is nothing more to want for now. */
  push(chunk: Uint8Array): boolean;
  /** The head, and the first of the body that came with it; undefined until it is whole. */
  take(): { readonly head: Head; readonly rest: Buffer } | undefined;
}

/** With `isKept`, bytes stay as they are after `push` returned false, and need not be copied. */
export function createHeadBuffer(url: URL, { isKept }: { readonly isKept: boolean }): HeadBuffer {
  let bytes: Buffer = Buffer.alloc(0);

  return {
    push(chunk) {
      const view = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      const isWhole = bytes.length === 0 && view.includes(HEAD_END);
      bytes = isWhole && isKept ? view : Buffer.concat([bytes, chunk]);
      return !bytes.includes(HEAD_END);
    },

    take() {
      const found = bytes.indexOf(HEAD_END);
      if (found >= 0) {
        const head = parseHead(bytes.subarray(0, found).toString("latin1"), url);
        return { head, rest: bytes.subarray(found + HEAD_END.length) };
      }
      if (bytes.length <= HEAD_BYTES_MAX) return undefined;
      throw new Failure("unavailable", `${url.host} sent an endless header`);
    },
  };
}

export function requestHead(url: URL, headers: Readonly<Record<string, string>>): string {
  const lines = [`GET ${url.pathname}${url.search} HTTP/1.1`, `host: ${url.host}`];
  for (const [name, value] of Object.entries(headers)) {
    if (/[\r\n\0]/.test(value)) throw new Failure("invalid", `the header ${name} has a line break`);
    lines.push(`${name}: ${value}`);
  }
  return `${lines.join("\r\n")}${HEAD_END}`;
}

function parseHead(text: string, url: URL): Head {
  const [first = "", ...lines] = text.split("\r\n");
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(first)?.[1]);
  if (Number.isNaN(status)) {
    throw new Failure("unavailable", `${url.host} does not speak HTTP/1.1`);
  }
  const headers: Record<string, string> = Object.create(null);
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon < 1) continue;
    const name = line.slice(0, colon).trim().toLowerCase();
    const value = line.slice(colon + 1).trim();
    // Said twice and differently, it says nothing: two lengths, no length.
    const earlier = headers[name];
    headers[name] = earlier === undefined || earlier === value ? value : `${earlier}, ${value}`;
  }
  return { status, headers };
}

/** Undefined when the answer is of a form that is not read here. */
export function readLength({ headers }: Head): number | undefined {
  const isCoded = "transfer-encoding" in headers || "content-encoding" in headers;
  const text = headers["content-length"] ?? "";
  return isCoded || !/^\d{1,15}$/.test(text) ? undefined : Number(text);
}
