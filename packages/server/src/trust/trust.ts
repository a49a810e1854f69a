// The trust document this server publishes, and the signatures it makes under it. Private keys are
// the signer's; here it is decided which of them sign, and what the next version says.

import {
  type Digest,
  digestOfBytes,
  type Envelope,
  Failure,
  type Instant,
  moveOrigins,
  newTrust,
  nextTrust,
  renewTrust,
  TRUST_PAYLOAD_TYPE,
  TRUST_RENEW_MS,
  TRUST_ROLES,
  type TrustDocument,
  type TrustedKey,
  type TrustRole,
  trustBytes,
} from "@exclave/core";
import { verifySignature } from "@exclave/machine";
import { createAlone, type Peers } from "../peers/peers.ts";
import type { Signer } from "../signer/signer.ts";
import type { Store } from "../store/store.ts";
import { createTrustKeys, retire, sealNext, signWith } from "./trust-keys.ts";
import { readVersions, rowOf, type TrustVersion, writeVersion } from "./trust-versions.ts";

export interface Trust {
  current(): TrustVersion;
  /** Oldest first, those after that version. */
  after(version: number): readonly TrustVersion[];
  byDigest(digest: Digest): TrustVersion | undefined;
  /** Signs with as many keys of the role as its threshold asks for. */
  seal(role: TrustRole, payloadType: string, payload: Uint8Array): Promise<Envelope>;
  /** The keys that sign for a role now: the newest that the signer holds, as many as must. */
  signingKeys(role: TrustRole): Promise<readonly TrustedKey[]>;
  /** Makes the next version current if the root signed it. */
  publish(envelope: unknown, by: string, details?: TrustDetails): Promise<TrustVersion>;
  /** Signs a next version with the root keys held here; published, or a draft for the others to sign. */
  change(document: TrustDocument, by: string, details: TrustDetails): Promise<TrustChanged>;
  /** Renews a document that ends soon and follows a public address that moved. */
  keepCurrent(): Promise<void>;
  /** Reads what another server has published. */
  refresh(): Promise<void>;
  /** Whether no other server has published a version that this one has yet to read. */
  isLatest(): Promise<boolean>;
  readonly signer: Signer;
  onPublished(listen: () => void): void;
}

export type TrustChanged =
  | { readonly kind: "published"; readonly version: TrustVersion }
  | { readonly kind: "to_sign"; readonly draft: Envelope };

const TURN = "trust";

export type TrustDetails = Readonly<Record<string, unknown>>;

export interface OpenTrust {
  readonly store: Store;
  readonly signer: Signer;
  /** Where the versions are kept as files. */
  readonly directory: string;
  /** Of the vendor's registry as agents reach it. */
  readonly origin: () => string;
  readonly now: () => Instant;
  readonly log: { warn(message: string): void; info(details: object, message: string): void };
  /** Of several servers one publishes at a time, and tells the others; unless said there is one. */
  readonly peers?: Pick<Peers, "alone" | "tell" | "servers"> | undefined;
}

export async function openTrust(options: OpenTrust): Promise<Trust> {
  const { store, signer, directory, now, log } = options;
  const versions = await readVersions(store, directory, now());
  const listeners: (() => void)[] = [];
  const keys = createTrustKeys({ signer, document: () => current().document, now });
  const takeTurn = createTurns(options.peers);

  await takeTurn(TURN, begin);

  const trust: Trust = {
    current,
    after: (version) => versions.slice(version),
    byDigest: (digest) => versions.find((version) => version.digest === digest),
    seal: (...sealed) => keys.seal(...sealed),
    signingKeys: (role) => keys.signingKeys(role),
    publish: (envelope, by, details = {}) => alone(() => publish(envelope, by, details)),
    change: (document, by, details) => alone(() => change(document, by, details)),
    keepCurrent: () => alone(keepCurrent),
    refresh,
    isLatest: () => isLatest(options, current().document.version),
    signer,
    onPublished: (listen) => void listeners.push(listen),
  };
  return trust;

  async function begin(): Promise<void> {
    // Another server may have begun meanwhile.
    await refresh();
    if (versions.length === 0) await append(await firstVersion(options), "server", { first: true });
    // A crash between file and row, or a database from before: what agents may have seen counts.
    for (const version of versions) {
      await keep(options, version, "server", { because: "found as a file" });
    }
  }

  async function refresh(): Promise<void> {
    const read = await readVersions(store, directory, now());
    const news = read.slice(versions.length);
    if (news.length === 0) return;
    versions.push(...news);
    keys.forgetHeld();
    for (const listen of listeners) listen();
  }

  function current(): TrustVersion {
    const last = versions.at(-1);
    if (!last) throw new Failure("bug", "there is no trust document");
    return last;
  }

  async function publish(envelope: unknown, by: string, details: TrustDetails) {
    const { document: before } = current();
    const asked = { current: before, envelope, now: now(), verify: verifySignature };
    const judged = nextTrust({ ...asked, mustBeValid: true });
    if (judged.kind === "refused") throw notTaken(judged);
    const { document, digest } = judged;
    const version = { document, digest, envelope: envelope as Envelope };
    await append(version, by, details);
    await retire(signer, log, before, document);
    return version;
  }

  async function change(
    document: TrustDocument,
    by: string,
    details: TrustDetails,
  ): Promise<TrustChanged> {
    const { draft, isWhole } = await sealNext(signer, current().document, document);
    if (!isWhole) return { kind: "to_sign", draft };
    return { kind: "published", version: await publish(draft, by, details) };
  }

  async function keepCurrent(): Promise<void> {
    const due = nextIfDue(current().document, [options.origin()], now());
    if (!due) return;
    const changed = await change(due.next, "server", { because: due.because });
    if (changed.kind !== "published") log.warn(due.warning);
  }

  /** File first: once an agent has seen a version, this server knows it whatever happens to the database. */
  async function append(version: TrustVersion, by: string, details: TrustDetails): Promise<void> {
    await writeVersion(directory, version);
    await keep(options, version, by, details);
    versions.push(version);
    keys.forgetHeld();
    options.peers?.tell({ kind: "trust" });
    log.info({ version: version.document.version }, "a trust document is published");
    for (const listen of listeners) listen();
  }

  /** One change at a time, on any server: each is made from the version before it. */
  function alone<Value>(work: () => Promise<Value>): Promise<Value> {
    return takeTurn(TURN, async () => {
      await refresh();
      return work();
    });
  }
}

function notTaken({ code, because }: Extract<ReturnType<typeof nextTrust>, { kind: "refused" }>) {
  const message = `the trust document is not taken: ${because}`;
  return new Failure(code === "replayed" ? "conflict" : code, message);
}

async function isLatest({ store, peers }: OpenTrust, version: number): Promise<boolean> {
  if ((peers?.servers().length ?? 1) < 2) return true;
  return (await store.read.trust.get(`${version + 1}`)) === undefined;
}

/** The next version, where the current one ends soon or names another address; and what is said if it lacks a signature. */
function nextIfDue(document: TrustDocument, origins: string[], now: Instant) {
  if (document.origins.join() !== origins.join()) {
    return {
      next: moveOrigins(document, origins, now),
      because: `the server is reached at ${origins.join()} now`,
      warning: `agents pull from ${document.origins.join()} only, and this server is reached at ${origins.join()}: sign a new trust document with \`exclave keys renew --root-key FILE\``,
    };
  }
  if (document.expiresAt - now >= TRUST_RENEW_MS) return undefined;
  return {
    next: renewTrust(document, now),
    because: "it ends soon",
    warning: `the trust document ends at ${new Date(document.expiresAt).toISOString()}, after which agents accept nothing: sign a new one with \`exclave keys renew --root-key FILE\``,
  };
}

/** Within this process, and on every server where there are several. */
function createTurns(peers: OpenTrust["peers"]) {
  const own = createAlone();
  return <Value>(name: string, work: () => Promise<Value>): Promise<Value> =>
    peers ? peers.alone(name, work) : own.run(name, work);
}

async function keep(
  { store, now }: Pick<OpenTrust, "store" | "now">,
  version: TrustVersion,
  by: string,
  details: TrustDetails,
): Promise<void> {
  const { document, digest } = version;
  await store.transaction(async (tx) => {
    if (await tx.trust.get(String(document.version))) return;
    const at = now();
    await tx.trust.put(rowOf(version, at, by));
    await tx.audit.append({
      at,
      actor: by,
      action: "trust.published",
      subject: `trust/${document.version}`,
      details: { digest, expiresAt: document.expiresAt, roles: document.roles, ...details },
    });
  });
}

/** Made from the keys the signer has, an older server's too; the missing ones are made. */
async function firstVersion({ signer, origin, now }: OpenTrust): Promise<TrustVersion> {
  const held = await signer.keys();
  const keyFor = async (role: TrustRole) =>
    held.find((key) => key.role === role) ?? (await signer.make(role));
  const [root, release, director, checkpoint] = await Promise.all(TRUST_ROLES.map(keyFor));
  if (!root || !release || !director || !checkpoint) throw new Failure("bug", "a role has no key");
  const document = newTrust(
    { root, release, director, checkpoint },
    { origins: [origin()], now: now() },
  );
  const envelope = await signWith(signer, {
    role: "root",
    keyids: document.roles.root.keyids,
    payloadType: TRUST_PAYLOAD_TYPE,
    payload: trustBytes(document),
  });
  return { document, envelope, digest: digestOfBytes(trustBytes(document)) };
}
