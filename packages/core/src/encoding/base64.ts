// Base64 (RFC 4648) of bytes, strict when reading: what does not read back as written is refused.

/** So many letters are made by one call: each is an argument of it, and those have a limit. */
const AT_ONCE = 4_096;

/** A program hands in its machine's own, which says the same many times as fast. */
export interface MachineBase64 {
  write(bytes: Uint8Array): string;
  /** May forgive what it cannot read: what it gives is written again and compared. */
  read(text: string): Uint8Array<ArrayBuffer> | undefined;
}

const PLAIN: MachineBase64 = { write: writePlainly, read: readPlainly };
let machine = PLAIN;

export function toBase64(bytes: Uint8Array): string {
  return machine.write(bytes);
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  const bytes = machine.read(text);
  // The platform's readers forgive white space and missing padding; two spellings of one
  // signature are one too many.
  return bytes && machine.write(bytes) === text ? bytes : undefined;
}

export function useBase64(own: MachineBase64): void {
  const some = Uint8Array.from({ length: 256 }, (_, index) => 255 - index);
  const text = writePlainly(some);
  const isSame = own.write(some) === text && own.read(text)?.every((byte, at) => byte === some[at]);
  if (!isSame) throw new TypeError("that is not base64");
  machine = own;
}

function writePlainly(bytes: Uint8Array): string {
  let binary = "";
  for (let from = 0; from < bytes.length; from += AT_ONCE) {
    binary += String.fromCharCode(...bytes.subarray(from, from + AT_ONCE));
  }
  return btoa(binary);
}

function readPlainly(text: string): Uint8Array<ArrayBuffer> | undefined {
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    return undefined;
  }
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index++) bytes[index] = binary.charCodeAt(index);
  return bytes;
}
