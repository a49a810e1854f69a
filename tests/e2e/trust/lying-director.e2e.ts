// Another server takes the real one's place, with the director's key, the real record and the vendor's
// registry, and offers jobs that no release states. Nothing runs, nothing new becomes readable in the
// install's registry, and each refusal is on record.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { AgentEvent, type ReleaseView } from "@exclave/api";
import { createRegistry, createRegistryFiles, packImage } from "@exclave/oci";
import { until, untilHealthy, type World } from "../testing/harness.ts";
import { createShopWorld, writeShop } from "../testing/shop-app.ts";
import {
  type DirectorLie,
  directorOf,
  lieOf,
  refOf,
  statementIn,
} from "./testing/lying-director.ts";
import { startLyingServer } from "./testing/lying-server.ts";
import { untilOnRecord } from "./testing/refusals.ts";
import { seenRecord } from "./testing/stolen-record.ts";

test("the director's key alone runs nothing unreleased, and brings nothing into an install", async (t) => {
  const world = await createShopWorld(t);
  const releases = [await releaseOfInstall(world)];
  for (const colour of ["green", "red"]) {
    await world.exclave("release", writeShop(world, { colour }), "--channel", "stable", "--wait");
    await untilHealthy(world, "acme");
    releases.push(await releaseOfInstall(world));
  }
  const [first, second, newest] = releases;
  assert.ok(first && second && newest);
  assert.equal(new Set(releases.map(({ id }) => id)).size, 3);
  world.write("other/run.sh", "#!/bin/sh\n");
  world.write(
    "other/exclave.yaml",
    "app: other\ncomponents:\n  - { name: web, type: command, source: ., apply: [./run.sh] }\n",
  );
  const other = await world.json<ReleaseView>("release", "other", "--wait");
  const { url } = JSON.parse(readFileSync(join(world.home, "run/up.json"), "utf8")) as {
    url: string;
  };
  const director = directorOf(world, "acme");
  const pwned = join(world.place, "pwned");

  for (const words of [["exclave.js up"], ["server/src/main.ts"], ["agent/src/main.ts"]]) {
    world.kill(...words);
    await until("it is gone", () => world.pids(...words).length === 0);
  }
  const content = join(world.home, "server/registry");
  const files = createRegistryFiles(content);
  // Not released, but in the vendor's registry, where whoever has taken the server can put anything.
  const program = join(world.place, "evil.sh");
  writeFileSync(program, `#!/bin/sh\ntouch ${pwned}\n`);
  const layers = [{ files: [{ path: "bin/evil", from: program, executable: true }] }];
  const packed = await packImage({
    store: files,
    repository: "exclave/plugins/service",
    layers,
    config: { entrypoint: ["/bin/evil"] },
  });
  const evil = { repository: "exclave/plugins/service", digest: packed.digest };
  const registry = createRegistry({ directory: content, auth: { kind: "anonymous" } });
  const port = Number(new URL(url).port);
  const liar = await startLyingServer(port, {
    record: seenRecord(join(world.home, "installs/acme")),
    grant: {
      registryUrl: `http://127.0.0.1:${port}`,
      credential: "anything",
      expiresAt: Date.now() + 3_600_000,
    },
    registry,
  });
  let isHere = true;
  const leave = async () => {
    if (!isHere) return;
    isHere = false;
    await liar.close();
    await registry.close();
  };
  t.after(leave);
  const [now, middle, old, theirs] = [
    await statementIn(files, newest),
    await statementIn(files, second),
    await statementIn(files, first),
    await statementIn(files, other),
  ];
  const of = (name: string) => {
    const found = now.components.find((component) => component.name === name);
    assert.ok(found, name);
    return found;
  };
  const operations = ["sync", "plan", "apply", "destroy", "status", "logs", "exec"] as const;
  const lie = (...args: DropFirst<Parameters<typeof lieOf>>) => lieOf(director, ...args);

  const lies: DirectorLie[] = [
    ...operations.flatMap((operation) => [
      lie(`${operation} of an unreleased plugin`, operation, now, { step: { plugin: evil } }),
      lie(`${operation} with a release of another app`, operation, theirs, {
        // What was never synced is not even looked into.
        codes: operation === "sync" ? ["wrong_install"] : ["not_synced"],
      }),
      lie(`${operation} of an index nobody stated`, operation, now, {
        step: { releases: [{ ...refOf(now.index), digest: evil.digest }] },
        codes: ["signature", "not_synced"],
      }),
      lie(`${operation} whose step differs`, operation, now, {
        step: { operation: operation === "exec" ? "apply" : "exec" },
        codes: ["invalid"],
      }),
    ]),
    ...operations
      .filter((operation) => operation !== "sync")
      .flatMap((operation) => [
        lie(`${operation} with another component's artifact`, operation, now, {
          step: { artifact: of("api").artifact },
        }),
        lie(`${operation} with an artifact as its plugin`, operation, now, {
          step: { plugin: of("web").artifact },
        }),
        lie(`${operation} with a changed configuration`, operation, now, {
          step: { config: { ...director.config["web"], command: ["touch", pwned] } },
        }),
        lie(`${operation} of a service by the command plugin`, operation, now, {
          step: {
            plugin: of("api").plugin,
            type: "command",
            config: { apply: ["touch", pwned] },
            effect: "idempotent",
          },
        }),
      ]),
    lie("sync of unreleased content", "sync", now, {
      step: { materials: [{ name: "evil", ...evil }] },
    }),
    lie("sync with a released plugin as its runner", "sync", now, {
      step: { plugin: of("web").plugin },
    }),
    lie("sync with a configuration", "sync", now, {
      step: { config: { apply: ["touch", pwned] } },
    }),
    lie("sync with a component's artifact", "sync", now, {
      step: { component: "web", type: "service", artifact: of("api").artifact },
    }),
    lie("sync of another app's content", "sync", now, {
      step: { materials: [{ name: "release", ...refOf(theirs.index) }] },
    }),
    // A sync may bring again what a component is still deployed from, as database is from the first
    // release; nothing is from the second any more, to which only a rollback may lead.
    ...operations.map((operation) =>
      lie(`${operation} of an older release`, operation, operation === "sync" ? middle : old, {
        codes: ["downgrade"],
      }),
    ),
    ...operations
      .filter((operation) => operation !== "sync")
      .map((operation) =>
        lie(`${operation} of a release too old for a rollback`, operation, old, {
          rollback: true,
          codes: ["downgrade"],
        }),
      ),
  ];
  const before = contentOf(join(world.home, "installs/acme/registry/content"));

  liar.tell(lies);
  // Without acknowledgements an agent says only so much: the rest waits in its journal.
  const journal = new DatabaseSync(join(world.home, "installs/acme/agent/journal.db"), {
    readOnly: true,
  });
  const events = () =>
    journal
      .prepare("select body from events order by seq")
      .all()
      .map(({ body }) => AgentEvent.parse(JSON.parse(String(body))));
  const codesOf = (job: string, said: readonly AgentEvent[]) =>
    said.flatMap((event) => {
      if (event.type === "job_rejected" && event.job === job) return [event.code];
      if (event.type !== "job_ended" || event.job !== job) return [];
      return [event.outcome.kind === "failed" ? event.outcome.code : event.outcome.kind];
    });
  await until("every lie is refused", () => {
    const said = events();
    return lies.every(({ job }) => codesOf(job, said).length > 0);
  });
  const said = events();

  await t.test("each is refused for what is wrong with it", () => {
    const wrong = lies.flatMap(({ name, job, codes }) => {
      const given = codesOf(job, said);
      const isRight = given.length === 1 && codes.includes(given[0] ?? "");
      return isRight ? [] : [`${name}: ${given.join()}`];
    });
    assert.deepEqual(wrong, []);
  });

  await t.test("nothing ran, and the install's registry has nothing new to read", () => {
    assert.ok(!existsSync(pwned));
    const started = said.flatMap((event) =>
      event.type === "job_started" ? [event.job as string] : [],
    );
    assert.deepEqual(
      lies.filter(({ job }) => started.includes(job)).map(({ name }) => name),
      [],
    );
    assert.deepEqual(contentOf(join(world.home, "installs/acme/registry/content")), before);
  });

  await t.test("the same without a lie succeeds: nothing else was wrong with them", async () => {
    const honest = [lie("status", "status", now), lie("exec", "exec", now)];
    liar.tell(honest);
    const ends = () => honest.map(({ job }) => codesOf(job, events()).join());
    await until("they ended", () => ends().every((end) => end !== ""));
    assert.deepEqual(ends(), ["succeeded", "succeeded"]);
  });

  await t.test("when the real server is back, each refusal is on its record", async () => {
    await leave();
    await world.up();
    await untilOnRecord(
      world,
      lies.flatMap(({ job }) => codesOf(job, said)),
    );
    await world.exclave("audit", "verify");
    await untilHealthy(world, "acme");
  });
});

type DropFirst<List extends unknown[]> = List extends [unknown, ...infer Rest] ? Rest : never;

async function releaseOfInstall(world: World): Promise<ReleaseView> {
  const { release } = await world.install("acme");
  const all = await world.json<ReleaseView[]>("release", "list", "--app", "shop");
  return all.find(({ id }) => id === release) ?? assert.fail(`there is no release ${release}`);
}

/** Every file below it that a registry shows to anybody. */
function contentOf(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== "lock")
    .map(({ parentPath, name }) => join(parentPath, name))
    .toSorted();
}
