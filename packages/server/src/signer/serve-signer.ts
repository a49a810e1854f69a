// Answers a stream of requests from one signer, in the order they come.

import type { Readable, Writable } from "node:stream";
import { asFailure, Failure, fromBase64, toBase64, unreachable } from "@exclave/core";
import type { Signer } from "./signer.ts";
import { readLines, type SignerAnswer, SignerRequest } from "./signer-wire.ts";

export async function serveSigner(
  signer: Signer,
  { input, output }: { readonly input: Readable; readonly output: Writable },
): Promise<void> {
  for await (const line of readLines(input)) {
    const answer = await answerTo(signer, line);
    output.write(`${JSON.stringify(answer)}\n`);
  }
}

async function answerTo(signer: Signer, line: string): Promise<SignerAnswer> {
  const request = parse(line);
  if (!request) return problem(0, new Failure("invalid", "that is not a request to a signer"));
  try {
    return { id: request.id, ...(await perform(signer, request)) };
  } catch (reason) {
    return problem(request.id, asFailure(reason));
  }
}

async function perform(signer: Signer, request: SignerRequest): Promise<Partial<SignerAnswer>> {
  switch (request.do) {
    case "keys":
      return { keys: [...(await signer.keys())] };
    case "sign": {
      const payload = fromBase64(request.payload);
      if (!payload) throw new Failure("invalid", "the payload is not base64");
      return { signature: toBase64(await signer.sign({ ...request, payload })) };
    }
    case "make":
      return { key: await signer.make(request.role) };
    case "forget":
      await signer.forget(request.role, request.keyid);
      return {};
    case "export":
      if (request.role !== "root") {
        throw new Failure("forbidden", `a ${request.role} key is never handed out`);
      }
      return { pem: await signer.exportRoot(request.keyid) };
    default:
      return unreachable(request);
  }
}

function parse(line: string): SignerRequest | undefined {
  try {
    return SignerRequest.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}

function problem(id: number, { code, message }: Failure): SignerAnswer {
  return { id, error: { code, message: message.slice(0, 2_000) } };
}
