// Offers and statements, good ones and mutants of them, against the path that an install agent takes:
// the envelope is judged, the statement found and verified, the manifest compared with it. Whoever makes
// a mutant has some of the keys; what each class of mutant may change is what that attacker could.

import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import {
  AppId,
  ComponentName,
  ComponentType,
  checkReleased,
  digestOf,
  type Envelope,
  IN_TOTO_PAYLOAD_TYPE,
  InstallId,
  Instant,
  judgeEnvelope,
  MANIFEST_PAYLOAD_TYPE,
  Manifest,
  manifestBytes,
  openStatement,
  preAuthEncoding,
  type ReleaseStatement,
  signEnvelope,
  statementBytes,
  statementFor,
  type TrustedKey,
} from "@exclave/core";
import { verifySignature } from "@exclave/machine";
import type { Dice } from "../simulation/dice.ts";
import { type Json, mutateAt, type Path, pickOf, placesIn, withValue } from "./mutate.ts";

const NOW = Instant.parse(1_800_000_000_000);
const APP = AppId.parse("pcrmaaaaaaaaaaaaa");
const OTHER_APP = AppId.parse("pothaaaaaaaaaaaaa");
const ACME = InstallId.parse("iacmeaaaaaaaaaaaa");
const CONFIG = { command: ["node", "server.mjs"], environment: { URL: "${{ inputs.url }}" } };
const EFFECTS = {
  plan: "idempotent",
  apply: "fenced",
  destroy: "fenced",
  status: "idempotent",
  logs: "idempotent",
  exec: "at-most-once",
} as const;

export interface Keys {
  readonly privateKey: KeyObject;
  readonly trusted: TrustedKey;
}

export function makeKeys(scheme: TrustedKey["scheme"], keyid: string): Keys {
  const { privateKey, publicKey } =
    scheme === "ed25519"
      ? generateKeyPairSync("ed25519")
      : generateKeyPairSync("ec", { namedCurve: "P-256" });
  const spki = publicKey.export({ type: "spki", format: "der" }).toString("base64");
  return { privateKey, trusted: { keyid, spki, scheme } };
}

const director = makeKeys("ed25519", "director");
const release = makeKeys("ecdsa-p256", "release");
const stranger = makeKeys("ed25519", "director");
const strangeRelease = makeKeys("ecdsa-p256", "release");

function stated(number: number, app: AppId = APP): ReleaseStatement {
  const ref = (repository: string) => ({ repository, digest: digestOf({ repository, number }) });
  return statementFor({
    app,
    appName: "crm",
    release: `r${number}`,
    number,
    versionName: `${number}.0`,
    index: { ...ref(`releases/${app}`), sizeBytes: 900 },
    components: ["api", "web"].map((name) => ({
      name: ComponentName.parse(name),
      type: ComponentType.parse(name === "api" ? "command" : "service"),
      plugin: ref(`exclave/plugins/${name}`),
      artifact: ref(`apps/${app}/${name}`),
      config: CONFIG,
      effects: EFFECTS,
    })),
    runner: ref("exclave/runner"),
    sandboxes: [],
    rollbackTo: { numberMin: Math.max(1, number - 1) },
    createdAt: NOW,
  });
}

const CURRENT = stated(5);
/** Released, and below what the install has seen. */
const OLD = stated(2);
const FOREIGN = stated(5, OTHER_APP);
const FLOOR = { number: 5, numberMin: 4 };
const OPERATIONS = ["sync", "plan", "apply", "destroy", "status", "logs", "exec"] as const;

/** What an agent is offered, and what it finds when it looks for the statement. */
export interface Offer {
  readonly envelope: unknown;
  readonly statement: unknown;
}

/** Which check refused it; `accepted` when none did. */
export function judge({ envelope, statement }: Offer): string {
  const judged = judgeEnvelope({
    envelope,
    keys: [director.trusted],
    threshold: 1,
    verify: verifySignature,
    audience: ACME,
    now: NOW,
    clockSkewMs: 300_000,
    lastIssueNo: 10,
    seenAttempts: { has: () => false },
  });
  if (judged.kind === "refused") return `envelope: ${judged.code}`;
  const [index] = judged.manifest.steps[0]?.releases ?? [];
  if (!index) return "manifest: names no release";
  const role = { keys: [release.trusted], threshold: 1 };
  const verify = verifySignature;
  const opened = openStatement({ envelope: statement, index: index.digest, role, verify });
  if (opened.kind === "refused") return `statement: ${opened.because.replace(/sha256:\w+/, "…")}`;
  const verdict = checkReleased(judged.manifest, {
    kind: "install",
    app: APP,
    statements: new Map([[opened.statement.index.digest, opened.statement]]),
    floor: FLOOR,
    deployed: new Map(),
    runners: [],
  });
  return verdict.kind === "refused" ? `released: ${verdict.code}` : "accepted";
}

export function goodOffer(dice: Dice): Offer {
  return { envelope: signed(manifestOf(dice, CURRENT)), statement: sealed(CURRENT) };
}

/** Classes of mutants: by whom, and of what. */
export const CLASSES: Readonly<Record<string, (dice: Dice) => Offer>> = {
  "the server without keys changes an envelope": (dice) => {
    const { envelope, statement } = goodOffer(dice);
    return { envelope: mutated(envelope, dice, isEnvelopePart), statement };
  },
  "the server without keys flips a bit of the payload or a signature": (dice) => {
    const { envelope, statement } = goodOffer(dice);
    return { envelope: flipped(envelope as Envelope, dice), statement };
  },
  "a stranger signs a mutated manifest": (dice) => {
    const manifest = mutatedManifest(dice, CURRENT, () => true);
    return { envelope: signedAs(stranger, manifest), statement: sealed(CURRENT) };
  },
  "the director alone changes what the release says": (dice) => ({
    envelope: signedAs(director, mutatedManifest(dice, CURRENT, isReleased)),
    statement: sealed(CURRENT),
  }),
  "the director alone directs to somebody else, or at another time": (dice) => ({
    envelope: signedAs(director, unaddressed(dice)),
    statement: sealed(CURRENT),
  }),
  "the director alone directs an older or a foreign release": (dice) => {
    const of = pickOf(dice, [OLD, FOREIGN]);
    const rollback = pickOf(dice, [{}, { rollback: true }]);
    const app = pickOf(dice, [APP, of.app]);
    const manifest = { ...manifestOf(dice, of), ...rollback, app };
    return { envelope: signedAs(director, manifest as unknown as Json), statement: sealed(of) };
  },
  "the server without keys changes a statement": (dice) => {
    const { envelope, statement } = goodOffer(dice);
    return { envelope, statement: mutated(statement, dice, isEnvelopePart) };
  },
  "the server without keys flips a bit of a statement": (dice) => {
    const { envelope, statement } = goodOffer(dice);
    return { envelope, statement: flipped(statement as Envelope, dice) };
  },
  "the director states its own lie, signed by a stranger": (dice) => {
    const lie = mutatedStatement(dice);
    const keys = pickOf(dice, [strangeRelease, director, stranger]);
    return { envelope: signed(manifestOf(dice, CURRENT)), statement: sealedAs(keys, lie) };
  },
  "the release key alone directs": (dice) => ({
    envelope: signedAs(
      pickOf(dice, [release, strangeRelease]),
      manifestOf(dice, CURRENT) as unknown as Json,
    ),
    statement: sealed(CURRENT),
  }),
};

function manifestOf(dice: Dice, of: ReleaseStatement): Manifest {
  const operation = pickOf(dice, OPERATIONS);
  const inputs = { url: "https://example.com" };
  const { repository, digest } = of.index;
  const releases = [{ repository, digest }];
  const component = pickOf(dice, of.components);
  const { name, type, plugin, artifact, effects } = component;
  const step =
    operation === "sync"
      ? {
          operation,
          plugin: of.runner,
          config: {},
          parameters: { mountFrom: ["exclave/runner"] },
          effect: "idempotent",
          materials: of.components.map((one) => ({ name: one.name, ...one.plugin })),
          releases,
        }
      : {
          operation,
          plugin,
          component: name,
          type,
          artifact,
          config: CONFIG,
          parameters: {},
          effect: effects[operation],
          releases,
        };
  return Manifest.parse({
    version: 1,
    id: "jaaaaaaaaaaaaaaab",
    attempt: 1,
    audience: ACME,
    issueNo: 11,
    operation,
    app: of.app,
    release: of.release,
    steps: [step],
    inputs,
    inputsDigest: digestOf(inputs),
    notBefore: NOW - 1_000,
    notAfter: NOW + 3_600_000,
    deadlineMs: 60_000,
    requestedBy: "somebody",
    because: "it is tested",
  });
}

/** What a director may not change: all of the step but its arguments, and what the job is of. */
function isReleased(path: Path, manifest: Json): boolean {
  const [field, , part, key] = path;
  const { operation } = manifest as { operation: string };
  if (field === "app" || field === "release") return true;
  if (field !== "steps") return false;
  // A list that is only shorter asks for less, and a material's name is for people.
  if (part === "materials") return key !== undefined && path.at(-1) === "digest";
  if (part === "parameters") return false;
  if (part === "releases") return ["repository", "digest"].includes(String(path.at(-1)));
  if (operation === "sync" && part === "effect") return true;
  return part !== undefined;
}

function mutatedManifest(
  dice: Dice,
  of: ReleaseStatement,
  isOpen: (path: Path, manifest: Json) => boolean,
): Json {
  for (;;) {
    const manifest = JSON.parse(JSON.stringify(manifestOf(dice, of))) as Json;
    const places = placesIn(manifest).filter((path) => isOpen(path, manifest));
    const mutant = mutateAt(manifest, pickOf(dice, places), dice);
    // Another spelling of the same, such as `materials` left away, is the same manifest.
    const read = Manifest.safeParse(mutant).data;
    if (!read || digestOf(read) !== digestOf(Manifest.parse(manifest))) {
      if (read && isHarmless(read, Manifest.parse(manifest))) continue;
      return mutant;
    }
  }
}

/** What says less and changes nothing: no release named beside the statement's own. */
function isHarmless(mutant: Manifest, original: Manifest): boolean {
  const { release: _, ...rest } = original;
  return mutant.release === undefined && digestOf(mutant) === digestOf(rest);
}

function unaddressed(dice: Dice): Json {
  const manifest = manifestOf(dice, CURRENT) as unknown as Json;
  const change = pickOf<[Path, Json]>(dice, [
    [["audience"], "iglobexaaaaaaaaaa"],
    [["audience"], "setup"],
    [["issueNo"], dice.below(11)],
    [["notAfter"], NOW - 300_001 - dice.below(1_000_000)],
    [["notBefore"], NOW + 300_001 + dice.below(1_000_000)],
    [["inputs", "url"], `https://${dice.below(1_000_000)}.example`],
    [["operation"], pickOf(dice, ["build", "assemble"])],
    [["version"], 2],
  ]);
  return withValue(manifest, ...change);
}

function mutatedStatement(dice: Dice): Uint8Array {
  const statement = JSON.parse(Buffer.from(statementBytes(CURRENT)).toString()) as Json;
  const mutant = mutateAt(statement, pickOf(dice, placesIn(statement)), dice);
  return Buffer.from(JSON.stringify(mutant));
}

function signed(manifest: Manifest): Envelope {
  return signedAs(director, manifest as unknown as Json);
}

function signedAs({ privateKey, trusted }: Keys, manifest: Json): Envelope {
  const algorithm = trusted.scheme === "ed25519" ? null : "sha256";
  const bytes = manifestBytes(manifest as unknown as Manifest);
  return signEnvelope(MANIFEST_PAYLOAD_TYPE, bytes, {
    keyid: "director",
    sign: (text) => sign(algorithm, text, privateKey),
  });
}

const sealedOnce = new Map<ReleaseStatement, unknown>();

function sealed(statement: ReleaseStatement): unknown {
  const known = sealedOnce.get(statement) ?? sealedAs(release, statementBytes(statement));
  sealedOnce.set(statement, known);
  return structuredClone(known);
}

function sealedAs({ privateKey, trusted }: Keys, payload: Uint8Array): unknown {
  const algorithm = trusted.scheme === "ed25519" ? null : "sha256";
  const sig = sign(algorithm, preAuthEncoding(IN_TOTO_PAYLOAD_TYPE, payload), privateKey);
  return {
    payloadType: IN_TOTO_PAYLOAD_TYPE,
    payload: Buffer.from(payload).toString("base64"),
    signatures: [{ sig: sig.toString("base64") }],
  };
}

/** A key's id beside a statement's signature is no proof, and may be anything. */
export function isEnvelopePart(path: Path): boolean {
  return ["payload", "payloadType", "signatures"].includes(String(path[0]));
}

export function mutated(document: unknown, dice: Dice, isOpen: (path: Path) => boolean): unknown {
  for (;;) {
    const json = JSON.parse(JSON.stringify(document)) as Json;
    const mutant = mutateAt(json, pickOf(dice, placesIn(json).filter(isOpen)), dice);
    // More signatures than the good one, which is still there, take nothing away.
    if (!keepsSignature(json, mutant)) return mutant;
  }
}

function keepsSignature(before: Json, after: Json): boolean {
  const parts = (json: Json) => json as { payload?: Json; payloadType?: Json; signatures?: Json };
  const [one, two] = [parts(before), parts(after)];
  if (one.payload !== two.payload || one.payloadType !== two.payloadType) return false;
  const list = Array.isArray(two.signatures) ? (two.signatures as Json[]) : [];
  const good = Array.isArray(one.signatures) ? JSON.stringify(one.signatures[0]) : "";
  return list.some((item) => JSON.stringify(item) === good);
}

export function flipped(envelope: Envelope, dice: Dice): unknown {
  const flip = (text: string) => {
    const bytes = Buffer.from(text, "base64");
    const at = dice.below(bytes.length);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << dice.below(8));
    return bytes.toString("base64");
  };
  const [first, ...rest] = envelope.signatures;
  if (!first || dice.below(2) === 0) return { ...envelope, payload: flip(envelope.payload) };
  return { ...envelope, signatures: [{ ...first, sig: flip(first.sig) }, ...rest] };
}
