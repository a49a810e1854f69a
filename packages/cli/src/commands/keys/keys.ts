// Who may say what: look at the trust document, replace keys, take the root key offline.

import {
  exportRootKey,
  forgetRootKey,
  getKeys,
  getTrust,
  type KeysView,
  publishTrust,
  ROOT_EXPORT_PAYLOAD_TYPE,
  renewTrust,
  rotateKey,
  type TrustChange,
} from "@exclave/api";
import { fromBase64, TRUST_ROLES, type TrustRole } from "@exclave/core";
import { readIfThere, writeDurably } from "@exclave/machine";
import { Argument, type Command } from "commander";
import { z } from "zod";
import { table, time } from "../../output/output.ts";
import { durationMs } from "../../program/arguments.ts";
import { type Cli, handler, type Invocation } from "../../program/cli.ts";
import { confirmByName } from "../../program/confirm.ts";
import { CliProblem } from "../../program/problem.ts";
import { type RootKey, readOrMakeRootKey, readRootKey, rootKeyOf, signChange } from "./root-key.ts";

export function addKeysCommands(program: Command, invocation: Invocation): void {
  const keys = program.command("keys").description("the keys that agents trust, by role");
  addShow(keys, invocation);
  addRotate(keys, invocation);
  addRenew(keys, invocation);
  addRootExport(keys, invocation);
}

function addShow(keys: Command, invocation: Invocation): void {
  keys
    .command("show")
    .description("show roles, keys, thresholds, the document's end, and which agents have it")
    .action(
      handler(invocation, z.object({}), async ({ cli }) => {
        const view = await (await cli.connect()).call(getKeys);
        cli.print({ value: view, text: () => keysText(view), names: () => keyids(view) });
      }),
    );
}

function addRotate(keys: Command, invocation: Invocation): void {
  keys
    .command("rotate")
    .description("replace the key of a role")
    .addArgument(new Argument("<role>", "whose key").choices([...TRUST_ROLES]))
    .option("--revoke", "the old key is out at once: it is lost, or in somebody else's hands")
    .option("--grace <duration>", "how long the old key goes on being verified (24h)", durationMs)
    .option("--root-key <file>", "the root key, where it was taken offline")
    .option("--new-root-key <file>", "for root: a key that stays here; made if there is none")
    .option("--yes", "do not ask")
    .action(
      handler(
        invocation,
        z.object({
          revoke: z.boolean().default(false),
          grace: z.int().optional(),
          rootKey: z.string().optional(),
          newRootKey: z.string().optional(),
          yes: z.boolean().default(false),
        }),
        async ({ cli, options }, role: TrustRole) => {
          const { revoke, grace, newRootKey } = options;
          if (newRootKey !== undefined && role !== "root") {
            throw new CliProblem("usage", "--new-root-key is for `keys rotate root`");
          }
          if (revoke && !options.yes) await confirmByName(cli, role, revokeWarning(role));
          const own = await rootKeys(options);
          const made = newRootKey === undefined ? undefined : await readOrMakeRootKey(newRootKey);
          const client = await cli.connect();
          const change = await client.call(rotateKey, {
            params: { role },
            body: {
              revoke,
              ...(grace === undefined ? {} : { graceMs: grace }),
              ...(made && { newRoot: made.spki }),
            },
          });
          const signers = made ? [...own, made] : own;
          await finish(cli, change, { signers, role });
        },
      ),
    );
}

function addRenew(keys: Command, invocation: Invocation): void {
  keys
    .command("renew")
    .description("publish the trust document anew, with a later end and the server's address")
    .option("--root-key <file>", "the root key, where it was taken offline")
    .action(
      handler(
        invocation,
        z.object({ rootKey: z.string().optional() }),
        async ({ cli, options }) => {
          const signers = await rootKeys(options);
          const change = await (await cli.connect()).call(renewTrust, { body: {} });
          await finish(cli, change, { signers });
        },
      ),
    );
}

function addRootExport(keys: Command, invocation: Invocation): void {
  keys
    .command("root")
    .description("the root key itself")
    .command("export")
    .description("take the root key offline: into a file here, after which the server forgets it")
    .argument("<file>", "where to keep it")
    .option("--yes", "do not ask")
    .action(
      handler(
        invocation,
        z.object({ yes: z.boolean().default(false) }),
        async ({ cli, options }, file: string) => {
          if ((await readIfThere(file)) !== undefined) {
            throw new CliProblem("usage", `${file} is there already; nothing was done`);
          }
          const warning = "From then on no key can be replaced without that file. Keep two copies.";
          if (!options.yes) await confirmByName(cli, "root", warning);
          const client = await cli.connect();
          const { keyid, pem, challenge } = await client.call(exportRootKey, { body: {} });
          rootKeyOf(pem, "the server's answer");
          await writeDurably(file, pem);
          // Read back: what is signed is signed with what the file really holds.
          const kept = await readRootKey(file);
          const payload = fromBase64(challenge) ?? new Uint8Array();
          const signature = kept.sign(ROOT_EXPORT_PAYLOAD_TYPE, payload);
          await client.call(forgetRootKey, { body: { keyid, signature } });
          cli.print({
            value: { keyid, file },
            text: () => `root key ${keyid.slice(0, 12)} is in ${file}; the server has forgotten it`,
            names: () => [keyid],
          });
        },
      ),
    );
}

async function rootKeys({ rootKey }: { rootKey?: string | undefined }): Promise<RootKey[]> {
  return rootKey === undefined ? [] : [await readRootKey(rootKey)];
}

/** Published by the server, or signed here and sent back. */
async function finish(
  cli: Cli,
  change: TrustChange,
  { signers, role }: { readonly signers: readonly RootKey[]; readonly role?: TrustRole },
): Promise<void> {
  const client = await cli.connect();
  let done = change;
  if (change.kind === "to_sign") {
    if (signers.length === 0) {
      throw new CliProblem("usage", "the root key is not on the server: nothing was changed", {
        hint: "give it with --root-key FILE",
      });
    }
    const current = await client.call(getTrust, { params: { version: "current" } });
    const { envelope, sentences } = signChange({ draft: change, current, keys: signers, role });
    for (const sentence of sentences) cli.say(sentence);
    done = await client.call(publishTrust, { body: envelope });
  }
  const { version } = done;
  cli.print({
    value: { version },
    text: () => `trust document ${version} is published; agents take it when they are connected`,
    names: () => [`${version}`],
  });
}

function revokeWarning(role: TrustRole): string {
  const ends: Record<TrustRole, string> = {
    root: "The old root key signs nothing any more.",
    release:
      "Releases signed with the old key are not verified any more: installs go on running, but do nothing new until there is a release signed with the new key.",
    director: "Agents accept nothing more from the old key; what is on its way is signed anew.",
    checkpoint: "Agents believe no checkpoint of the old key any more.",
  };
  return ends[role];
}

function keyids({ roles }: KeysView): string[] {
  return roles.flatMap(({ keys }) => keys.map(({ keyid }) => keyid));
}

function keysText(view: KeysView): string {
  const rows = view.roles.flatMap(({ role, threshold, keys }) =>
    keys.map((key) => ({ role, threshold, count: keys.length, ...key })),
  );
  const lines = [
    `trust document ${view.version}, until ${time(view.expiresAt)}`,
    `agents pull from ${view.origins.join(", ")}`,
    "",
    table(
      rows,
      [
        { header: "ROLE", cell: ({ role }) => role },
        { header: "KEY", cell: ({ keyid }) => keyid.slice(0, 16) },
        { header: "SCHEME", cell: ({ scheme }) => scheme },
        { header: "SIGNS", cell: ({ threshold, count }) => `${threshold} of ${count}` },
        { header: "UNTIL", cell: ({ until }) => time(until) },
        { header: "HELD", cell: ({ held }) => (held ? "by the signer" : "elsewhere") },
      ],
      "",
    ),
    "",
    ...view.agents.map(({ version, agents }) => `version ${version}: ${agents} agents`),
    ...view.behind.map(
      ({ install, audience, version, isOnline }) =>
        `${install ?? audience} is at version ${version}${isOnline ? "" : ", offline"}`,
    ),
  ];
  return lines.join("\n");
}
