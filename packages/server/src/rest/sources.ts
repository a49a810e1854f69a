// Source archives, content-addressed: people upload them, build jobs read them with a token of theirs.

import type { Readable } from "node:stream";
import { headSource, putSource } from "@exclave/api";
import { Digest, Failure } from "@exclave/core";
import { createTokenVerifier } from "@exclave/oci";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { audit, type ServerContext } from "../context.ts";
import { REGISTRY_ISSUER, SOURCES_SERVICE, sourceAccess } from "../job/grants.ts";
import type { Admission } from "./admission.ts";
import { type Handler, handler } from "./handler.ts";

export const SOURCE_HANDLERS: readonly Handler[] = [
  handler(headSource, async ({ params, context }) => ({
    exists: (await context.store.read.sources.get(params.digest)) !== undefined,
  })),

  handler(putSource, async ({ params, request, caller, context }) => {
    const { digest } = params;
    const sizeBytes = await context.sources.receive(digest, request.body as Readable);
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

export function addAgentSourceRoute(
  app: FastifyInstance,
  context: () => ServerContext,
  admission: Admission,
): void {
  const onRequest = async (request: FastifyRequest, reply: FastifyReply) =>
    void (await admission.enter(request, reply, { isStream: true }));
  app.get("/v1/agent/sources/:digest", { onRequest }, async (request, reply) => {
    const { keys, now, sources } = context();
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
    const found = await sources.open(Digest.parse(digest));
    if (!found) throw new Failure("not_found", `the source ${digest} is not here`);
    return reply
      .type("application/x-tar")
      .header("content-length", found.sizeBytes)
      .send(found.bytes);
  });
}
