// The machine's own SHA-256 and base64, in place of those that the core brings along.

import { hash } from "node:crypto";
import { useBase64, useSha256 } from "@exclave/core";

export function useMachineCoders(): void {
  useSha256((data) => hash("sha256", data, "hex"));
  useBase64({
    write: ({ buffer, byteOffset, byteLength }) =>
      Buffer.from(buffer, byteOffset, byteLength).toString("base64"),
    // A copy: small buffers of Node's share their memory.
    read: (text) => new Uint8Array(Buffer.from(text, "base64")),
  });
}
