// Text as bytes and back. Reading is strict: bytes that are no UTF-8 are an error, and not a text with
// other letters in their place. Both coders are made once, which costs more than using them.

const ENCODER = new TextEncoder();
const STRICT = new TextDecoder("utf-8", { fatal: true });

export function utf8Bytes(text: string): Uint8Array<ArrayBuffer> {
  return ENCODER.encode(text);
}

export function strictText(bytes: Uint8Array): string {
  return STRICT.decode(bytes);
}
