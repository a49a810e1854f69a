// Base64 (RFC 4648) of bytes, strict when reading: what does not read back as written is refused.

/** So many letters are made by one call: each is an argument of it, and those have a limit. */
const AT_ONCE = 4_096;

export function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let from = 0; from < bytes.length; from += AT_ONCE) {
    binary += String.fromCharCode(...bytes.subarray(from, from + AT_ONCE));
  }
  return btoa(binary);
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    return undefined;
  }
  // The platform's reader forgives white space and missing padding; two spellings of one
  // signature are one too many.
  if (btoa(binary) !== text) return undefined;
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index++) bytes[index] = binary.charCodeAt(index);
  return bytes;
}
