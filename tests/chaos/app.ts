// The app of a run: the shop, whose every apply leaves a line, and a component whose apply may run at
// most once, so that a second run by itself would show.

import { join } from "node:path";
import { lines, repeated, type World } from "../e2e/testing/harness.ts";
import { trail, writeShop } from "../e2e/testing/shop-app.ts";

const PLUGIN = {
  version: 1,
  type: "once",
  description: "An apply that may run at most once",
  run: ["./plugin.sh"],
  operations: {
    build: { effect: "idempotent" },
    apply: { effect: "at-most-once" },
    destroy: { effect: "idempotent" },
    status: { effect: "idempotent" },
  },
  configSchema: { type: "object", properties: { install: { type: "string" } } },
  outputs: {},
  source: "required",
};

export const APP = "shop";

/** Every colour is another release, and another apply of `once`. */
export function writeApp(world: World, colour: string): string {
  writeShop(world, { colour, applySeconds: 1 });
  world.write("shop/once/colour.txt", `${colour}\n`);
  world.write("shop/once-plugin/plugin.json", JSON.stringify(PLUGIN));
  world.write("shop/once-plugin/plugin.sh", pluginScript(join(world.place, "once.txt")));
  const app = world.read("shop/exclave.yaml").replace(
    "components:\n",
    `plugins:
  - { type: once, source: ./once-plugin }
components:
  - name: once
    type: once
    source: ./once
    install: "\${{ install.name }}"
    statusEverySeconds: 5
`,
  );
  world.write("shop/exclave.yaml", app);
  return join(world.place, APP);
}

function pluginScript(file: string): string {
  return `#!/bin/sh
set -eu
case "$EXCLAVE_OPERATION" in
  build) mkdir -p "$EXCLAVE_WORK_DIR/build"; cp "$EXCLAVE_FILES/colour.txt" "$EXCLAVE_WORK_DIR/build/" ;;
  apply)
    echo "$(cat "$EXCLAVE_CONFIG_DIR/install") $(cat "$EXCLAVE_FILES/colour.txt")" >> ${file}
    sleep 1
    cp "$EXCLAVE_FILES/colour.txt" "$EXCLAVE_STATE_DIR/done" ;;
  destroy) rm -f "$EXCLAVE_STATE_DIR/done" ;;
  status)
    if [ -f "$EXCLAVE_STATE_DIR/done" ]; then health=healthy; else health=missing; fi
    printf '{"type":"result","ok":true,"health":"%s","because":"its mark"}\\n' "$health" ;;
esac
`;
}

/** What ran twice by itself: jobs that were started twice, and at-most-once applies nobody asked for again. */
export function ranTwice(world: World, asked: readonly string[]): string[] {
  const once = lines(world.read("once.txt"));
  const more = [...new Set(once)].filter((one) => {
    const [install] = one.split(" ");
    const words = asked.filter((command) =>
      command.startsWith(`exclave install deploy ${install}`),
    );
    return once.filter((line) => line === one).length > 1 + words.length;
  });
  return [...repeated(trail(world)), ...more.map((one) => `at most once, for ${one}`)];
}
