// The vendor of every simulated world: one app, its releases, and the statements that say what is in
// them. Signatures are tags that cost nothing, and that only this vendor's server can make.

import { createHash, generateKeyPairSync, sign } from "node:crypto";
import type { KeptStatement } from "@exclave/agent/simulation";
import {
  AppId,
  type ArtifactRef,
  type Digest,
  digestOf,
  digestOfBytes,
  type Envelope,
  Instant,
  PluginDescriptor,
  preAuthEncoding,
  type ReleaseStatement,
  releaseRepository,
  statementBytes,
  TRUST_PAYLOAD_TYPE,
  type TrustDocument,
  toBase64,
  trustBytes,
} from "@exclave/core";
import {
  createAppReader,
  type ReleaseRow,
  statementOf,
  type Trust,
} from "@exclave/server/simulation";
import { START_AT } from "./world.ts";

const TAG = 7;
/** A key has one role. */
const PAIRS = {
  root: generateKeyPairSync("ed25519"),
  release: generateKeyPairSync("ec", { namedCurve: "P-256" }),
  director: generateKeyPairSync("ed25519"),
  checkpoint: generateKeyPairSync("ed25519"),
};
const KEYS = {
  root: keyOf("root"),
  release: keyOf("release"),
  director: keyOf("director"),
  checkpoint: keyOf("checkpoint"),
};
const KEYID = KEYS.director.keyid;

function keyOf(role: keyof typeof PAIRS) {
  const der = PAIRS[role].publicKey.export({ format: "der", type: "spki" });
  const keyid = createHash("sha256").update(der).digest("hex");
  const scheme = role === "release" ? ("ecdsa-p256" as const) : ("ed25519" as const);
  return { keyid, spki: toBase64(der), scheme };
}

export const APP = AppId.parse("pcrmaaaaaaaaaaaaa");
export const CHANNEL = "stable";
/** For registry tokens, which nobody here checks. */
export const REGISTRY_KEY = PAIRS.director.privateKey;

const refNamed = (name: string): ArtifactRef => ({ repository: name, digest: digestOf({ name }) });
const RUNNER = refNamed("exclave/runner");

const PLUGINS = {
  terraform: descriptor("terraform", { plan: "idempotent", apply: "fenced", destroy: "fenced" }),
  command: descriptor("command", {
    apply: "idempotent",
    destroy: "idempotent",
    status: "idempotent",
    logs: "idempotent",
    exec: "at-most-once",
  }),
  migration: descriptor("migration", { apply: "at-most-once", destroy: "idempotent" }),
};

function descriptor(type: string, effects: Readonly<Record<string, string>>): PluginDescriptor {
  return PluginDescriptor.parse({
    version: 1,
    type,
    operations: Object.fromEntries(
      Object.entries(effects).map(([name, effect]) => [name, { effect }]),
    ),
    configSchema: { type: "object", additionalProperties: true },
    buildKeys: ["build"],
    outputs: "open",
  });
}

const COMPONENTS = [
  ["database", "terraform"],
  ["api", "command"],
  ["schema", "migration"],
] as const;

function config(version: number): string {
  return `app: crm
secrets:
  - { name: session, generate: { bytes: 16 } }
components:
  - { name: database, type: terraform, source: ./database }
  - name: api
    type: command
    source: ./api
    statusEverySeconds: 20
    environment:
      URL: "\${{ components.database.outputs.url }}"
      KEY: "\${{ secrets.session }}"
      VERSION: "${version}"
  - { name: schema, type: migration, source: ./schema, needs: [database] }
`;
}

export interface Released {
  readonly row: ReleaseRow;
  readonly statement: ReleaseStatement;
  readonly kept: KeptStatement;
}

export const readApp = createAppReader();

/** What installs are made with, and what the first update brings. */
export const RELEASES: readonly Released[] = [1, 2].map((number) =>
  makeRelease(number, Instant.parse(START_AT + number)),
);
const later = new Map<string, Released>();

/** Made at a moment of one world. */
export function laterRelease(number: number, createdAt: Instant): Released {
  const key = `${number} ${createdAt}`;
  const made = later.get(key) ?? makeRelease(number, createdAt);
  later.set(key, made);
  return made;
}

/** Nobody keeps what a world that is over has made. */
export function forgetLater(): void {
  later.clear();
}

function makeRelease(number: number, createdAt: Instant): Released {
  const index = digestOf({ index: number, createdAt });
  const row: ReleaseRow = {
    id: `r${index.slice(-16).replace(/[0189]/g, "z")}`,
    app: APP,
    appName: "crm",
    version: `${number}`,
    number,
    state: "ready",
    file: "exclave.yaml",
    config: config(number),
    runner: RUNNER,
    plugins: Object.entries(PLUGINS).map(([type, described]) => ({
      type,
      descriptor: described,
      plugin: refNamed(`exclave/plugins/${type}`),
      own: false,
      source: null,
      buildKey: null,
      job: null,
      reused: true,
    })),
    components: COMPONENTS.map(([name, type]) => ({
      name,
      type,
      source: digestOf({ name }),
      buildKey: digestOf({ name, number }),
      artifact: { repository: `apps/crm/${name}`, digest: digestOf({ name, built: number }) },
      job: null,
      reused: false,
    })),
    channel: CHANNEL,
    assembleJob: null,
    sandboxes: [
      {
        type: "local",
        image: refNamed("exclave/sandboxes/local"),
        effects: { apply: "idempotent", destroy: "idempotent", status: "idempotent" },
      },
    ],
    signJob: null,
    digest: index,
    rollbackNumberMin: 1,
    signedBy: [KEYID],
    unsignedBecause: null,
    because: null,
    createdAt,
    requestedBy: "vendor",
    trace: null,
  };
  const place = { repository: releaseRepository(APP), digest: index, sizeBytes: 100 };
  const statement = statementOf(row, readApp(row), place, 1);
  const payload = Buffer.from(statementBytes(statement));
  const envelope = { ...seal("application/vnd.in-toto+json", payload) };
  const artifact = digestOf({ statement: number });
  return { row, statement, kept: { index, artifact, envelope } as KeptStatement };
}

export function releaseOfIndex(index: Digest): Released | undefined {
  return allReleases().find(({ kept }) => kept.index === index);
}

export function releaseOfId(id: string | undefined): Released | undefined {
  return allReleases().find(({ row }) => row.id === id);
}

function allReleases(): Released[] {
  return [...RELEASES, ...later.values()];
}

export function seal(payloadType: string, payload: Uint8Array, isForged = false): Envelope {
  const bytes = preAuthEncoding(payloadType, payload);
  const sig = Uint8Array.of(isForged ? TAG + 1 : TAG, bytes.length % 251);
  return {
    payloadType,
    payload: toBase64(payload),
    signatures: [{ keyid: KEYID, sig: toBase64(sig) }],
  };
}

export function isSealed(bytes: Uint8Array, signature: Uint8Array): boolean {
  return signature[0] === TAG && signature[1] === bytes.length % 251;
}

/** Who tags whatever this vendor signs but its trust document. */
export const SIGNER = KEYS.director;

const roleOf = ({ keyid }: { readonly keyid: string }) => ({ keyids: [keyid], threshold: 1 });
export const DOCUMENT: TrustDocument = {
  version: 1,
  expiresAt: Instant.parse(START_AT * 2),
  keys: Object.fromEntries(
    Object.values(KEYS).map(({ keyid, spki, scheme }) => [keyid, { spki, scheme }]),
  ),
  roles: {
    root: roleOf(KEYS.root),
    release: roleOf(KEYS.release),
    director: roleOf(KEYS.director),
    checkpoint: roleOf(KEYS.checkpoint),
  },
  origins: ["http://127.0.0.1"],
};

/** The trust document of this vendor; `sealing` decides how a command goes out. */
export function simulatedTrust(
  sealing: (payloadType: string, payload: Uint8Array) => Envelope,
): Trust {
  signed ??= signedTrust();
  const version = signed;
  return {
    current: () => version,
    after: (number) => (number < 1 ? [version] : []),
    byDigest: () => version,
    seal: async (_, payloadType, bytes) => sealing(payloadType, bytes),
    signingKeys: async () => [],
    publish: async () => version,
    change: async () => ({ kind: "published", version }),
    keepCurrent: async () => undefined,
    refresh: async () => undefined,
    isLatest: async () => true,
    signer: undefined as never,
    onPublished: () => undefined,
  };
}

let signed: ReturnType<typeof signedTrust> | undefined;

function signedTrust() {
  const payload = trustBytes(DOCUMENT);
  const bytes = preAuthEncoding(TRUST_PAYLOAD_TYPE, payload);
  const sig = toBase64(sign(null, bytes, PAIRS.root.privateKey));
  const envelope = {
    payloadType: TRUST_PAYLOAD_TYPE,
    payload: toBase64(payload),
    signatures: [{ keyid: KEYS.root.keyid, sig }],
  };
  return { document: DOCUMENT, digest: digestOfBytes(payload), envelope };
}
