// Source archives, content-addressed: people upload them, build jobs read them with a token of theirs.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { headSource, putSource } from "@exclave/api";
import { Digest, Failure } from "@exclave/core";
import { placeDurably } from "@exclave/machine";
import { createTokenVerifier } from "@exclave/oci";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { audit, type ServerContext } from "../context.ts";
import { newSecret } from "../identifiers.ts";
import { REGISTRY_ISSUER, SOURCES_SERVICE, sourceAccess } from "../job/grants.ts";
import type { Admission } from "./admission.ts";
import { type Handler, handler } from "./handler.ts";

export const SOURCE_BYTES_MAX = 1024 * 1024 * 1024;

export const SOURCE_HANDLERS: readonly Handler[] = [
  handler(headSource, async ({ params, context }) => ({
    exists: (await context.store.read.sources.get(params.digest)) !== undefined,
  })),

  handler(putSource, async ({ params, request, caller, context }) => {
    const { digest } = params;
    const sizeBytes = await receiveSource(context.uploads, digest, request.body as Readable);
    const uploaded = {
      actor: caller.name,
      action: "source.uploaded",
      subject: digest,
      details: { sizeBytes },
    };
    const isFirst = context.repeats.isFirst(uploaded);
    await context.store.transaction(async (tx) => {
      await tx.sources.put({ digest, sizeBytes, uploadedAt: context.now() });
      if (isFirst) await audit(tx, context, uploaded);
    });
    return { digest, sizeBytes };
  }),
];

/** Under its final name only when all bytes are there, durable, and are what the digest says. */
async function receiveSource(directory: string, digest: Digest, body: Readable): Promise<number> {
  const beside = join(directory, `.${newSecret()}.part`);
  const hash = createHash("sha256");
  let sizeBytes = 0;
  const handle = await open(beside, "wx", 0o600);
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      sizeBytes += chunk.length;
      if (sizeBytes > SOURCE_BYTES_MAX) {
        throw new Failure("too_large", `a source may have ${SOURCE_BYTES_MAX} bytes at most`);
      }
      hash.update(chunk);
      await handle.write(chunk);
    }
    const got = `sha256:${hash.digest("hex")}`;
    if (got !== digest) {
      throw new Failure("invalid", `the bytes that came are ${got}, not ${digest}`);
    }
    await placeDurably(handle, beside, sourceFile(directory, digest));
    return sizeBytes;
  } catch (reason) {
    await rm(beside, { force: true });
    throw reason;
  } finally {
    await handle.close();
  }
}

export function addAgentSourceRoute(
  app: FastifyInstance,
  context: () => ServerContext,
  admission: Admission,
): void {
  const onRequest = async (request: FastifyRequest, reply: FastifyReply) =>
    void (await admission.enter(request, reply, { isStream: true }));
  app.get("/v1/agent/sources/:digest", { onRequest }, async (request, reply) => {
    const { keys, now, uploads } = context();
    const { digest } = request.params as { digest: string };
    const token = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? "")?.[1] ?? "";
    const verifier = createTokenVerifier({
      publicKeys: [keys.registry.publicKey],
      issuer: REGISTRY_ISSUER,
      audience: SOURCES_SERVICE,
    });
    const { access } = await verifier.verify(token, now());
    if (!access.some(({ name }) => name === sourceAccess(digest).name)) {
      throw new Failure("forbidden", "the token is for another source");
    }
    const file = sourceFile(uploads, Digest.parse(digest));
    const { size } = await stat(file).catch((cause: unknown) => {
      throw new Failure("not_found", `the source ${digest} is not here`, { cause });
    });
    return reply
      .type("application/x-tar")
      .header("content-length", size)
      .send(createReadStream(file));
  });
}

function sourceFile(directory: string, digest: Digest): string {
  return join(directory, `${digest.replace(":", "-")}.tar`);
}
