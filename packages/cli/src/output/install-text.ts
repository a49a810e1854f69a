// One install for people: where it stands, its components, and every reason why it is not further.

import type { ComponentView, HoldView, InstallView } from "@exclave/api";
import { type Cli, type Paint, toneOf } from "../program/cli.ts";
import { pairs, shortDigest, table, time } from "./output.ts";

export function printInstall(cli: Cli, install: InstallView): void {
  cli.print({
    value: install,
    text: () => installText(install, cli.paint),
    names: () => [install.name],
  });
}

function installText(install: InstallView, paint: Paint): string {
  const { agent } = install;
  const facts = pairs([
    ["install", `${install.name} (${install.id})`],
    ["app", `${install.app}, channel ${install.channel}`],
    ["release", install.version === null ? "none yet" : `${install.version} (${install.release})`],
    ["phase", paint(toneOf(install.phase), install.phase)],
    ["health", paint(toneOf(install.health), install.health)],
    ["agent", agent.since === null ? agent.status : `${agent.status} since ${time(agent.since)}`],
    ["sandbox", [install.sandbox, inputText(install.sandboxConfig)].filter(Boolean).join(": ")],
    ["inputs", inputText(install.inputs)],
    ["created", time(install.createdAt)],
  ]);
  const components = table(
    install.components,
    [
      { header: "COMPONENT", cell: ({ name }) => name },
      { header: "TYPE", cell: ({ type }) => type },
      { header: "STATE", cell: ({ state }) => paint(toneOf(state), state) },
      { header: "HEALTH", cell: ({ health }) => paint(toneOf(health), health) },
      { header: "LOOKED AT", cell: ({ healthAt }) => (healthAt === null ? "" : time(healthAt)) },
      { header: "ARTIFACT", cell: ({ artifact }) => shortDigest(artifact) },
      { header: "OUTPUTS", cell: outputText },
    ],
    "no components",
  );
  return [facts, components, ...alarmsText(install), ...holdsText(install)].join("\n\n");
}

function alarmsText({ alarms }: InstallView): string[] {
  if (alarms.length === 0) return [];
  return [["alarms:", ...alarms.map(({ at, because }) => `  ${time(at)}: ${because}`)].join("\n")];
}

function holdsText({ holds }: InstallView): string[] {
  if (holds.length === 0) return [];
  const lines = holds.map((hold) => `  ${hold.component ?? "install"}: ${holdText(hold)}`);
  return [["waits:", ...lines].join("\n")];
}

/** Where no command is named, nobody has to do anything, and it says so. */
export function holdText({ because, endsWhen, command }: HoldView): string {
  return `${because}; ends ${command === null ? "by itself " : ""}when ${endsWhen}`;
}

function outputText({ outputs, healthBecause, health }: ComponentView): string {
  if (health !== "healthy" && healthBecause !== "") return healthBecause;
  return inputText(outputs);
}

function inputText(values: Readonly<Record<string, unknown>>): string {
  const text = Object.entries(values)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
  return text.length > 100 ? `${text.slice(0, 99)}…` : text;
}
