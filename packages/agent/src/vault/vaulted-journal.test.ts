import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { digestOf, jobName } from "@exclave/core";
import { createMemoryJournal } from "../journal/memory-journal.ts";
import { createSqliteJournal } from "../journal/sqlite-journal.ts";
import { createDirector, job, jobId, NOW, recordOf, silentLog } from "../testing/builders.ts";
import { agentWith, kinds, nameOf, SUCCEEDED, types } from "../testing/core-agent.ts";
import { describeJournal } from "../testing/journal-contract.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createMemoryVault } from "./memory-vault.ts";
import { createSealedVault, type Vault } from "./vault.ts";
import { createVaultedJournal } from "./vaulted-journal.ts";

describeJournal("the journal with a vault", async (t) => {
  const home = await temporaryDirectory(t);
  const open = () => {
    const journal = createVaultedJournal({
      journal: createSqliteJournal({ path: join(home, "agent", "journal.db") }),
      vault: createSealedVault({
        directory: join(home, "vault"),
        keyPath: join(home, "agent", "vault.key"),
        log: silentLog,
      }),
      log: silentLog,
    });
    t.after(() => journal.close());
    return journal;
  };
  return { journal: open(), reopen: open };
});

test("no secret, sensitive output or redacted value lies in the journal's file", async (t) => {
  const path = join(await temporaryDirectory(t), "journal.db");
  const sqlite = createSqliteJournal({ path });
  const journal = createVaultedJournal({
    journal: sqlite,
    vault: createMemoryVault(),
    log: silentLog,
  });
  const { name } = recordOf(job());
  journal.commit([
    { kind: "secret", name: "session", value: "in the clear" },
    {
      kind: "outputs",
      component: "api",
      outputs: [{ name: "u", value: "in the clear", sensitive: true }],
    },
    { kind: "job_secrets", name, secrets: ["in the clear"] },
    { kind: "down_acked", seq: 1 },
  ]);
  journal.close();

  assert.doesNotMatch((await readFile(path)).toString("latin1"), /in the clear/);
});

/** An agent whose journal is gone; what its vault has, it has. */
function afterLoss(vault: Vault, director = createDirector(), lostBefore?: number) {
  const journal = createVaultedJournal({
    journal: createMemoryJournal({ journalId: `j${Math.random()}` }),
    vault,
    lostBefore,
    log: silentLog,
  });
  return agentWith({ director, journal });
}

test("after a lost journal schedules, secrets and outputs are there again", () => {
  const vault = createMemoryVault();
  const before = afterLoss(vault);
  before.welcome();
  const apply = job("apply", { statusEveryMs: 5_000 });
  before.run(apply);
  before.journal.commit([{ kind: "secret", name: "session", value: "made once" }]);
  const outputs = [{ name: "url", value: "https://a", sensitive: false }];
  before.feed({ kind: "exited", name: nameOf(apply), ended: { ...SUCCEEDED, outputs } });

  const after = afterLoss(vault);
  const effects = after.feed({ kind: "restored", found: [], fresh: true });

  assert.equal(after.journal.secret("session"), "made once");
  assert.deepEqual([...after.journal.outputs()], [["api", outputs]]);
  assert.ok(kinds(effects).includes("status"), "the component is watched again");
  assert.deepEqual(
    after.restart().state.schedule.get("api")?.entry.everyMs,
    5_000,
    "and is in the new journal",
  );
});

test("a job found running after a lost journal is followed to its end and reported", () => {
  const vault = createMemoryVault();
  const before = afterLoss(vault);
  before.welcome();
  const apply = job("apply");
  before.run(apply);
  const name = nameOf(apply);

  const after = afterLoss(vault, before.director);
  const inspects = after.feed({ kind: "restored", found: [name], fresh: true });
  const follows = after.feed({ kind: "inspected", name, run: { kind: "running" } });
  after.feed({ kind: "exited", name, ended: SUCCEEDED });

  assert.ok(kinds(inspects).includes("inspect"));
  assert.ok(kinds(follows).includes("follow"));
  assert.deepEqual(types(after.told()), ["inventory", "job_ended"]);
  const [inventory, ended] = after.told();
  assert.deepEqual(inventory?.type === "inventory" && inventory.jobs, [
    { job: apply.id, attempt: 1, state: "running" },
  ]);
  assert.equal(ended?.type === "job_ended" && ended.outcome.kind, "succeeded");
});

for (const [effect, outcome] of [
  ["idempotent", "failed"],
  ["at-most-once", "unknown"],
] as const) {
  test(`a launched ${effect} job that is gone with the journal ends as ${outcome} and is not run again`, () => {
    const vault = createMemoryVault();
    const before = afterLoss(vault);
    before.welcome();
    before.offer(job("apply", { step: { effect } }));

    const after = afterLoss(vault, before.director);
    const effects = after.feed({ kind: "restored", found: [], fresh: true });

    assert.ok(!kinds(effects).includes("launch"));
    const ended = after.told().find(({ type }) => type === "job_ended");
    assert.equal(ended?.type === "job_ended" && ended.outcome.kind, outcome);
  });
}

test("a cancel asked for before the loss is carried out after it", () => {
  const vault = createMemoryVault();
  const before = afterLoss(vault);
  before.welcome();
  const apply = job("apply");
  before.run(apply);
  before.command(before.director.cancel(apply.id));

  const after = afterLoss(vault, before.director);
  after.feed({ kind: "restored", found: [nameOf(apply)], fresh: true });
  const effects = after.feed({ kind: "inspected", name: nameOf(apply), run: { kind: "running" } });

  assert.ok(kinds(effects).includes("stop"));
});

test("a job that has ended is not taken up again from the vault", () => {
  const vault = createMemoryVault();
  const before = afterLoss(vault);
  before.welcome();
  const apply = job("apply");
  before.run(apply);
  before.feed({ kind: "exited", name: nameOf(apply), ended: SUCCEEDED });

  const after = afterLoss(vault, before.director);
  after.feed({ kind: "restored", found: [], fresh: true });

  assert.deepEqual(types(after.told()), ["inventory"]);
});

test("a status that was looked up when the journal was lost is cleared away, not reported", () => {
  const name = jobName(`s-api-${NOW}`, 1);

  const after = afterLoss(createMemoryVault());
  const effects = after.feed({ kind: "restored", found: [name], fresh: true });

  assert.ok(effects.some((effect) => effect.kind === "remove" && effect.name === name));
  const [inventory] = after.told();
  assert.deepEqual(inventory?.type === "inventory" && inventory.jobs, []);
});

test("a manifest that ran before the journal was lost is refused after it", () => {
  const vault = createMemoryVault();
  const before = afterLoss(vault);
  before.welcome();
  const apply = job("apply");
  before.run(apply);
  before.feed({ kind: "exited", name: nameOf(apply), ended: SUCCEEDED });

  const after = afterLoss(vault, before.director);
  after.feed({ kind: "restored", found: [], fresh: true });
  after.welcome();
  after.offer(apply);
  const restarted = after.restart();
  restarted.welcome();
  restarted.offer(job("later", { id: jobId("other"), issueNo: apply.issueNo }));

  const rejections = restarted.told().filter((event) => event.type === "job_rejected");
  assert.deepEqual(
    rejections.map((event) => event.type === "job_rejected" && event.code),
    ["replayed", "replayed"],
  );
});

test("with the vault lost as well, what was issued before the loss is refused, and later work is not", () => {
  const after = afterLoss(createMemoryVault(), createDirector(), NOW);
  after.feed({ kind: "restored", found: [], fresh: true });
  after.welcome();
  after.offer(job("old", { notBefore: (NOW - 1) as never }));
  const restarted = after.restart();
  restarted.welcome();
  restarted.offer(job("older", { notBefore: (NOW - 2) as never }));
  restarted.offer(job("new", { notBefore: NOW as never }));

  assert.deepEqual(
    types(restarted.told()).filter((type) => type !== "inventory"),
    ["job_rejected", "job_rejected", "job_accepted"],
  );
});

test("an agent that never lived before refuses nothing for its age", () => {
  const first = afterLoss(createMemoryVault());
  first.feed({ kind: "restored", found: [], fresh: true });
  first.welcome();

  first.offer(job("queued", { notBefore: (NOW - 3_600_000) as never }));

  assert.ok(types(first.told()).includes("job_accepted"));
});

test("only an agent that never lived before says that nothing was ever applied where it is", () => {
  const saysNew = (agent: ReturnType<typeof afterLoss>) => {
    agent.feed({ kind: "restored", found: [], fresh: true });
    const [inventory] = agent.told();
    return inventory?.type === "inventory" && inventory.isNew;
  };
  const vault = createMemoryVault();
  const before = afterLoss(vault);
  before.welcome();
  before.run(job("apply"));

  assert.equal(saysNew(afterLoss(createMemoryVault())), true);
  assert.equal(saysNew(afterLoss(createMemoryVault(), createDirector(), NOW)), undefined);
  assert.equal(saysNew(afterLoss(vault)), undefined);
});

test("a vault that cannot be opened does not keep the agent from starting", async (t) => {
  const vault = createMemoryVault();
  const broken: Vault = {
    ...vault,
    read: () => {
      throw new Error("no key");
    },
    entries: () => {
      throw new Error("no key");
    },
  };

  const journal = createVaultedJournal({
    journal: createMemoryJournal({ journalId: "j" }),
    vault: broken,
    lostBefore: NOW,
    log: silentLog,
  });
  t.after(() => journal.close());

  assert.equal(journal.load().issuedFloor, NOW);
  assert.throws(() => journal.secret("session"), /no key/);
});

test("a job that neither journal nor vault knows is waited for, and its end is reported", () => {
  const name = jobName(jobId("foreign"), 2);
  const after = afterLoss(createMemoryVault());
  after.feed({ kind: "restored", found: [name], fresh: true });

  const effects = after.feed({ kind: "foreign_exited", name, because: "it ended with code 0" });
  const twice = after.feed({ kind: "foreign_exited", name, because: "it ended with code 0" });

  const ended = after.told().filter((event) => event.type === "job_ended");
  assert.deepEqual(
    ended.map(({ job, attempt, outcome }) => [job, attempt, outcome.kind]),
    [[jobId("foreign"), 2, "unknown"]],
  );
  assert.ok(kinds(effects).includes("remove"));
  assert.deepEqual(kinds(twice), []);
  assert.equal(after.restart().state.foreign.size, 0);
});

test("a job that neither journal nor vault knows is not accepted when it is offered again", () => {
  const again = job("foreign");
  const name = jobName(again.id, again.attempt);
  const after = afterLoss(createMemoryVault());
  after.feed({ kind: "restored", found: [name], fresh: true });
  after.welcome();

  after.offer(again);
  after.feed({ kind: "foreign_exited", name, because: "it ended with code 0" });
  after.offer(again);

  const told = after.told().map(({ type }) => type);
  assert.ok(!told.includes("job_accepted"));
  // While it runs, a rejection would look like its end.
  assert.ok(told.indexOf("alarm") < told.indexOf("job_ended"));
  assert.ok(told.indexOf("job_ended") < told.indexOf("job_rejected"));
  assert.ok(after.restart().state.settled.has(name));
});

test("a status job that carries a schedule makes the agent watch the component", () => {
  const after = afterLoss(createMemoryVault());
  after.feed({ kind: "restored", found: [], fresh: true });
  after.welcome();
  const status = job("status", { operation: "status", statusEveryMs: 7_000 });
  after.run(status);

  after.feed({ kind: "exited", name: nameOf(status), ended: SUCCEEDED });

  assert.equal(after.restart().state.schedule.get("api")?.entry.everyMs, 7_000);
});

test("a lost journal keeps the checkpoints of the server's record, in the next journal too", () => {
  const vault = createMemoryVault();
  const signatures = [{ keyid: "k", sig: "YQ==" }];
  const envelope = { payloadType: "t", payload: "YQ==", signatures };
  const seen = { serverId: "one", size: 10, head: "a".repeat(64), at: NOW, envelope };
  const before = afterLoss(vault);
  before.journal.commit([{ kind: "checkpoints", list: [seen] }]);

  const after = afterLoss(vault);
  after.feed({ kind: "restored", found: [], fresh: true });
  const [hello] = after.frame({ type: "challenge", nonce: "n" });

  assert.deepEqual(hello?.kind === "hello" && hello.facts.checkpointSizes, [10]);
  assert.deepEqual(after.restart().state.checkpoints, [seen]);
});

test("checkpoints that cannot be read from the vault do not cost what else it keeps", () => {
  const vault = createMemoryVault();
  const before = afterLoss(vault);
  before.welcome();
  const apply = job("apply", { statusEveryMs: 5_000 });
  before.run(apply);
  before.feed({ kind: "exited", name: nameOf(apply), ended: SUCCEEDED });
  vault.keep("checkpoints", "seen", "not what was kept");

  const after = afterLoss(vault);

  assert.deepEqual([...after.state.schedule.keys()], ["api"]);
  assert.deepEqual(after.state.checkpoints, []);
});

test("a lost journal keeps the floor of releases, and what components were deployed from", () => {
  const vault = createMemoryVault();
  const open = () =>
    createVaultedJournal({
      journal: createMemoryJournal({ journalId: "new" }),
      vault,
      log: silentLog,
    });
  const [old, next] = [digestOf("release 1"), digestOf("release 2")];
  const install = "iacmeaaaaaaaaaaaa";
  open().commit([
    { kind: "release_floor", install, number: 2, numberMin: 1, index: next },
    { kind: "deployed", install, component: "api", index: old },
    { kind: "deploying", install, component: "api", index: next },
    { kind: "deployed", install, component: "web", index: next },
    { kind: "deployed", install, component: "gone", index: old },
    { kind: "undeployed", install, component: "gone" },
  ]);

  const found = open();
  const { floor, deployed } = found.releases(install);
  found.commit([{ kind: "deployed", install, component: "api", index: next }]);
  const after = open().releases(install).deployed;
  found.commit([{ kind: "release_forgotten", install }]);

  assert.deepEqual(floor, { number: 2, numberMin: 1 });
  assert.deepEqual(
    [...deployed],
    [
      ["api", [old, next]],
      ["web", [next]],
    ],
  );
  assert.deepEqual(after.get("api"), [next]);
  assert.deepEqual(open().releases(install), { deployed: new Map() });
});
