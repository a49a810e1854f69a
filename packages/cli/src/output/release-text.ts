// A release as people read it, the same wherever one is shown.

import type { ReleaseView } from "@exclave/api";
import { type Cli, toneOf } from "../program/cli.ts";
import { pairs, shortDigest, table, time } from "./output.ts";

export function printRelease(cli: Cli, release: ReleaseView): void {
  cli.print({
    value: release,
    text: () =>
      `${pairs([
        ["release", release.id],
        ["app", release.app],
        ["version", release.version],
        ["state", cli.paint(toneOf(release.state), release.state)],
        ["channel", release.channel],
        ["digest", release.digest],
        ["because", release.because],
        ["created", time(release.createdAt)],
      ])}\n\n${table(
        release.components,
        [
          { header: "COMPONENT", cell: ({ name }) => name },
          { header: "TYPE", cell: ({ type }) => type },
          {
            header: "BUILD",
            cell: ({ reused, artifact }) => (artifact === null ? "-" : reused ? "reused" : "built"),
          },
          { header: "ARTIFACT", cell: ({ artifact }) => shortDigest(artifact) },
        ],
        "it has no components",
      )}`,
    names: () => [release.id],
  });
}
