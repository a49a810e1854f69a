// A signer at the other end of a stream.

import { Failure, fromBase64, toBase64 } from "@exclave/core";
import type { Signer } from "./signer.ts";
import { createSignerConnection, type SignerConnectionOptions } from "./signer-connection.ts";

export function createSignerClient(options: SignerConnectionOptions): Signer {
  const { name } = options;
  const connection = createSignerConnection(options);

  return {
    keys: async () => (await connection.ask({ do: "keys" })).keys ?? [],
    async sign({ role, keyid, payloadType, payload }) {
      const asked = { role, keyid, payloadType, payload: toBase64(payload) };
      const { signature } = await connection.ask({ do: "sign", ...asked });
      return must(fromBase64(must(signature)));
    },
    // Asked once: a key that was made and never told of is of no harm, but need not be made twice.
    make: async (role) => must((await connection.ask({ do: "make", role }, 1)).key),
    async forget(role, keyid) {
      await connection.ask({ do: "forget", role, keyid });
    },
    exportRoot: async (keyid) =>
      must((await connection.ask({ do: "export", role: "root", keyid })).pem),
    close: () => connection.close(),
  };

  function must<Value>(value: Value | undefined): Value {
    if (value !== undefined) return value;
    throw new Failure("invalid", `${name} gave an answer to something else`);
  }
}
