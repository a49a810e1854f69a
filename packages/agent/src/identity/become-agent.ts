// Who this agent is: the identity and the trust document it keeps, or a join that gives it both.

import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { asFailure, Failure } from "@exclave/core";
import { readIfThere, writeDurably } from "@exclave/machine";
import { type ComposeOptions } from "../compose.ts";
import type { Journal } from "../journal/journal.ts";
import { adoptTrust, readFromServer } from "../trust/adopt-trust.ts";
import { createTrustFile, readTrustFile, type TrustFile } from "../trust/trust-file.ts";
import { type Identity, keepIdentity, readIdentity } from "./identity.ts";
import { joinPorts, joinServer } from "./join.ts";
import { keptJoiningKeys } from "./joining-keys.ts";

/** The identity it has, or the one a join string gives it. The string is spent and then gone. */
export async function becomeAgent(
  options: ComposeOptions,
  own: string,
  journal: Journal,
): Promise<{ readonly identity: Identity; readonly trust: TrustFile }> {
  const { kind, home, log, now } = options;
  const path = join(own, "identity.json");
  const trustPath = join(own, "trust.json");
  const joinFile = options.joinFile ?? join(home, "join");
  const known = await knownIdentity(options, path);
  const joinString = options.joinString ?? (await readIfThere(joinFile));
  if (joinString === undefined) {
    const trust = known && (await keptTrust(options, known, trustPath));
    if (known && trust) return { identity: known, trust };
    return awaitJoinString(options, joinFile, own, journal);
  }
  try {
    const { insecureHttp, proxy } = options;
    const keysPath = join(own, "joining.json");
    const keys = await keptJoiningKeys(keysPath, joinString);
    const request = { joinString, kind, insecureHttp, now: now(), keys };
    const joined = await joinServer({ ...request, ...joinPorts(proxy) });
    const { identity } = joined;
    // The server knows nothing of what an earlier agent said from this journal.
    if (!journal.load().fresh) journal.commit([{ kind: "restart", journalId: randomUUID() }]);
    // Before the identity: who is an agent has a trust document.
    const trust = createTrustFile(trustPath, joined, now);
    if (joined.certificate !== undefined) {
      await writeDurably(certificatePathIn(own), joined.certificate);
    }
    await keepIdentity(path, identity);
    await rm(joinFile, { force: true });
    await rm(keysPath, { force: true });
    log.info("joined", { agent: identity.agent, audience: identity.audience });
    return { identity, trust };
  } catch (reason) {
    // A string that is spent or too old is no reason to give up who this agent is.
    if (!known || asFailure(reason).code !== "unauthenticated") throw reason;
    log.warn("the join string does not work; going on as before", { reason });
    await rm(joinFile, { force: true });
    return { identity: known, trust: await ownTrust(known, trustPath, now) };
  }
}

export function certificatePathIn(own: string): string {
  return join(own, "certificate.pem");
}

/** An install agent that lost its trust document waits for setup like one that never joined. */
async function keptTrust(
  { kind, now, log }: ComposeOptions,
  known: Identity,
  path: string,
): Promise<TrustFile | undefined> {
  try {
    return await ownTrust(known, path, now);
  } catch (reason) {
    if (kind !== "install" || asFailure(reason).code !== "unauthenticated") throw reason;
    log.error(asFailure(reason).message);
    return undefined;
  }
}

async function ownTrust(
  { keys: pinned, serverUrl, serverCa }: Identity,
  path: string,
  now: () => number,
): Promise<TrustFile> {
  const kept = await readTrustFile(path, now);
  if (kept) return kept;
  if (!pinned) {
    const message = `${path} is missing: this agent does not know whom to trust and has to join anew`;
    throw new Failure("unauthenticated", message);
  }
  const adopted = await adoptTrust({
    serverUrl,
    pinned,
    now: now(),
    read: readFromServer(serverCa),
  });
  return createTrustFile(path, adopted, now);
}

async function knownIdentity(
  { kind, home, log }: ComposeOptions,
  path: string,
): Promise<Identity | undefined> {
  let known: Identity | undefined;
  try {
    known = await readIdentity(path);
  } catch (reason) {
    if (kind !== "install") throw reason;
    log.error("the agent's identity is damaged", { reason });
  }
  if (known && known.kind !== kind) {
    throw new Failure("conflict", `${home} is the home of a ${known.kind} agent`);
  }
  return known;
}

/**
 * An install agent without an identity waits for setup to leave a join string: whoever keeps it up would
 * only start it again and again. The vendor's own agents end with the sentence.
 */
async function awaitJoinString(
  options: ComposeOptions,
  joinFile: string,
  own: string,
  journal: Journal,
): ReturnType<typeof becomeAgent> {
  const { kind, log } = options;
  const message = `this agent has not joined a server; ${joinFile} is missing`;
  if (kind !== "install") throw new Failure("unauthenticated", message);
  log.error(`${message}; \`exclave install setup NAME\` leaves one`);
  while ((await readIfThere(joinFile)) === undefined) await sleep(JOIN_LOOK_MS);
  return becomeAgent(options, own, journal);
}

const JOIN_LOOK_MS = 1_000;
