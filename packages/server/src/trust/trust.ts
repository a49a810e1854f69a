// The trust document this server publishes, and the signatures it makes under it. Private keys are
// the signer's; here it is decided which of them sign, and what the next version says.

import {
  asFailure,
  type Digest,
  digestOfBytes,
  type Envelope,
  Failure,
  type Instant,
  keysOfRole,
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
  toBase64,
  trustBytes,
} from "@exclave/core";
import { verifySignature } from "@exclave/machine";
import type { Signer, SignerKey } from "../signer/signer.ts";
import type { Store } from "../store/store.ts";
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
  readonly signer: Signer;
  onPublished(listen: () => void): void;
}

export type TrustChanged =
  | { readonly kind: "published"; readonly version: TrustVersion }
  | { readonly kind: "to_sign"; readonly draft: Envelope };

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
}

export async function openTrust(options: OpenTrust): Promise<Trust> {
  const { store, signer, directory, now, log } = options;
  const versions = await readVersions(store, directory, now());
  const listeners: (() => void)[] = [];
  let held: readonly SignerKey[] = [];
  let publishing: Promise<unknown> = Promise.resolve();

  if (versions.length === 0) await append(await firstVersion(options), "server", { first: true });
  // A crash between file and row, or a database from before: what agents may have seen counts.
  for (const version of versions) await keep(version, "server", { because: "found as a file" });

  const trust: Trust = {
    current,
    after: (version) => versions.slice(version),
    byDigest: (digest) => versions.find((version) => version.digest === digest),
    seal,
    signingKeys,
    publish: (envelope, by, details = {}) => alone(() => publish(envelope, by, details)),
    change: (document, by, details) => alone(() => change(document, by, details)),
    keepCurrent: () => alone(keepCurrent),
    signer,
    onPublished: (listen) => void listeners.push(listen),
  };
  return trust;

  function current(): TrustVersion {
    const last = versions.at(-1);
    if (!last) throw new Failure("bug", "there is no trust document");
    return last;
  }

  async function seal(
    role: TrustRole,
    payloadType: string,
    payload: Uint8Array,
  ): Promise<Envelope> {
    const keyids = (await signingKeys(role)).map(({ keyid }) => keyid);
    return signWith(signer, { role, keyids, payloadType, payload });
  }

  async function signingKeys(role: TrustRole): Promise<readonly TrustedKey[]> {
    const { keys, threshold } = keysOfRole(current().document, role, now());
    const usableOf = (known: readonly SignerKey[]) =>
      keys.filter(({ keyid }) => isHeld(known, role, keyid)).slice(0, threshold);
    const usable = usableOf(held);
    if (usable.length === threshold) return usable;
    // Made or replaced since they were last asked for.
    held = await signer.keys();
    const found = usableOf(held);
    if (found.length === threshold) return found;
    const message = `the signer holds ${found.length} of the ${threshold} ${role} keys that must sign`;
    throw new Failure("unavailable", message);
  }

  async function publish(envelope: unknown, by: string, details: TrustDetails) {
    const { document: before } = current();
    const judged = nextTrust({
      current: before,
      envelope,
      now: now(),
      verify: verifySignature,
      mustBeValid: true,
    });
    if (judged.kind === "refused") {
      const code = judged.code === "replayed" ? "conflict" : judged.code;
      throw new Failure(code, `the trust document is not taken: ${judged.because}`);
    }
    const { document, digest } = judged;
    const version = { document, digest, envelope: envelope as Envelope };
    await append(version, by, details);
    await retire(before, document);
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

  /** A private key that was replaced signs nothing any more: it is forgotten, not kept. */
  async function retire(before: TrustDocument, after: TrustDocument): Promise<void> {
    for (const role of TRUST_ROLES) {
      const { keyids, threshold } = after.roles[role];
      const lasting = keyids.filter((keyid) => after.keys[keyid]?.until === undefined);
      const wanted = threshold === 1 ? lasting.slice(0, 1) : lasting;
      for (const keyid of before.roles[role].keyids) {
        if (wanted.includes(keyid)) continue;
        try {
          await signer.forget(role, keyid);
        } catch (reason) {
          const because = asFailure(reason).message;
          log.warn(`the signer keeps ${role} key ${keyid.slice(0, 12)}: ${because}`);
        }
      }
    }
  }

  async function keepCurrent(): Promise<void> {
    const { document } = current();
    const origins = [options.origin()];
    const hasMoved = document.origins.join() !== origins.join();
    const isEnding = document.expiresAt - now() < TRUST_RENEW_MS;
    if (!hasMoved && !isEnding) return;
    const next = hasMoved ? moveOrigins(document, origins, now()) : renewTrust(document, now());
    const because = hasMoved ? `the server is reached at ${origins.join()} now` : "it ends soon";
    if ((await change(next, "server", { because })).kind === "published") return;
    log.warn(
      hasMoved
        ? `agents pull from ${document.origins.join()} only, and this server is reached at ${origins.join()}: sign a new trust document with \`exclave keys renew --root-key FILE\``
        : `the trust document ends at ${new Date(document.expiresAt).toISOString()}, after which agents accept nothing: sign a new one with \`exclave keys renew --root-key FILE\``,
    );
  }

  /** File first: once an agent has seen a version, this server knows it whatever happens to the database. */
  async function append(version: TrustVersion, by: string, details: TrustDetails): Promise<void> {
    await writeVersion(directory, version);
    await keep(version, by, details);
    versions.push(version);
    held = [];
    log.info({ version: version.document.version }, "a trust document is published");
    for (const listen of listeners) listen();
  }

  async function keep(version: TrustVersion, by: string, details: TrustDetails): Promise<void> {
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

  /** One change at a time: each is made from the version before it. */
  function alone<Value>(work: () => Promise<Value>): Promise<Value> {
    const done = publishing.then(work, work);
    publishing = done.catch(() => undefined);
    return done;
  }
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

/** Signed by the old and the new root, as far as the signer holds them. */
async function sealNext(
  signer: Signer,
  current: TrustDocument,
  document: TrustDocument,
): Promise<{ readonly draft: Envelope; readonly isWhole: boolean }> {
  const held = await signer.keys();
  const keyids = new Set<string>();
  let isWhole = true;
  for (const { roles } of [current, document]) {
    const usable = roles.root.keyids.filter((keyid) => isHeld(held, "root", keyid));
    if (usable.length < roles.root.threshold) isWhole = false;
    for (const keyid of usable) keyids.add(keyid);
  }
  const draft = await signWith(signer, {
    role: "root",
    keyids: [...keyids],
    payloadType: TRUST_PAYLOAD_TYPE,
    payload: trustBytes(document),
  });
  return { draft, isWhole };
}

function isHeld(held: readonly SignerKey[], role: TrustRole, keyid: string): boolean {
  return held.some((key) => key.role === role && key.keyid === keyid);
}

interface SignWith {
  readonly role: TrustRole;
  readonly keyids: readonly string[];
  readonly payloadType: string;
  readonly payload: Uint8Array;
}

async function signWith(
  signer: Signer,
  { role, keyids, payloadType, payload }: SignWith,
): Promise<Envelope> {
  const signatures = await Promise.all(
    keyids.map(async (keyid) => {
      const signature = await signer.sign({ role, keyid, payloadType, payload });
      return { keyid, sig: toBase64(signature) };
    }),
  );
  return { payloadType, payload: toBase64(payload), signatures };
}
