// Helm charts on a real cluster: first each promise of the plugin by itself, then the whole line with a helm
// that is killed in the middle of an upgrade.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { plugin } from "@exclave/plugin-helm";
import { createTestContext } from "@exclave/plugin-sdk/testing";
import { type Cluster, offerCluster } from "../../cluster/cluster.ts";
import { createWorld, has, ROOT, until, untilHealthy } from "../testing/harness.ts";

const offer = await offerCluster((line) => console.log(line));
const skip = !has("helm")
  ? "helm is not to be had: the Helm line was not tried"
  : offer.kind === "unavailable" && `${offer.because}: the Helm line was not tried`;

const CHARTS = join(ROOT, "tests/cluster/charts");

describe("helm on a real cluster", { skip }, () => {
  let cluster: Cluster;
  before(async () => {
    assert.equal(offer.kind, "ready");
    cluster = await offer.start();
  });
  after(() => cluster?.stop());

  const directories: string[] = [];
  after(() => {
    for (const path of directories) rmSync(path, { recursive: true, force: true });
  });

  /** A component of its own, in a namespace of its own. */
  async function component(chart: string, namespace: string) {
    const base = { namespace, kubeconfig: cluster.kubeconfig, timeoutSeconds: 60 };
    const files = join(CHARTS, chart);
    const context = await createTestContext(plugin, { files, component: chart, config: base });
    directories.push(context.directory);
    const kubectl = (...args: readonly string[]) => cluster.kubectl("-n", namespace, ...args);
    return {
      context,
      kubectl,
      config: (values: Record<string, unknown>, more = {}) => ({ ...base, ...more, values }),
      helm: (...args: readonly string[]) =>
        execFileSync("helm", [...args, "-n", namespace, "--kubeconfig", cluster.kubeconfig], {
          encoding: "utf8",
        }),
      /** Plans, and applies exactly that. */
      async deploy(values: Record<string, unknown> = {}) {
        const config = { ...base, values };
        const { plan } = await context.run("plan", { config });
        const parameters = { planFile: plan?.file };
        return { plan, ...(await context.run("apply", { config, parameters })) };
      },
      content: async () =>
        (await kubectl("get", "all,configmap,secret,ingress,pvc", "-o", "name"))
          .split("\n")
          .filter((name) => name !== "" && name !== "configmap/kube-root-ca.crt"),
    };
  }

  test("a release is planned, made, changed by exactly the plan, and destroyed with its hooks", async () => {
    const shop = await component("shop", "one");

    const first = await shop.deploy({ token: "a-secret-token" });
    assert.equal(first.plan?.summary, "4 to add, 0 to change, 0 to destroy; a new release");
    assert.deepEqual(first.outputs, { release: "shop", namespace: "one", revision: 1 });
    const status = await shop.context.run("status");
    assert.equal(status.status?.health, "healthy", status.status?.because);
    assert.deepEqual(status.status?.drift, { found: false, summary: "none" });

    const values = { colour: "red", token: "another-token" };
    const planned = await shop.context.run("plan", { config: shop.config(values) });
    assert.equal(planned.plan?.summary, "0 to add, 3 to change, 0 to destroy");
    const said = planned.logs.join("\n");
    assert.match(said, /data\.colour: "blue" → "red"/);
    assert.match(said, /data\.token: "\(hidden\)" → "\(hidden\)"/);
    assert.doesNotMatch(said, new RegExp(Buffer.from("another-token").toString("base64")));

    const second = await shop.deploy(values);
    assert.equal(second.outputs["revision"], 2);
    assert.equal(await shop.kubectl("get", "configmap", "shop-config", "-o", COLOUR), "red");
    const nothing = await shop.context.run("plan", { config: shop.config(values) });
    assert.deepEqual(
      [nothing.plan?.risk, nothing.plan?.summary],
      ["none", "0 to add, 0 to change, 0 to destroy"],
    );

    const logs = await shop.context.run("logs");
    assert.match(logs.logs.join("\n"), /listening on 8080/);
    const parameters = { command: ["/sample", "environment", "COLOUR"] };
    const executed = await shop.context.run("exec", { parameters });
    assert.deepEqual([executed.exitCode, executed.logs], [0, ["red"]]);

    await shop.context.run("destroy");
    assert.match(await cluster.kubectl("get", "configmap", "shop-farewell", "-o", SAID), /goodbye/);
    assert.equal(await cluster.kubectl("get", "namespace", "one", "--ignore-not-found"), "");
    const gone = await shop.context.run("status");
    assert.equal(gone.status?.health, "missing");
  });

  test("a plan is refused once the release or the cluster moved on, and nothing is changed", async () => {
    const shop = await component("shop", "two");
    await shop.deploy();
    const config = shop.config({ colour: "green" });
    const { plan } = await shop.context.run("plan", { config });
    const planFile = join(shop.context.directory, "kept-plan.json");
    cpSync(plan?.file ?? "", planFile);
    const parameters = { planFile };

    await assert.rejects(
      shop.context.run("apply", { config: shop.config({ colour: "pink" }), parameters }),
      { code: "conflict", message: /the values are others now; plan again/ },
    );
    await shop.kubectl("scale", "deployment", "shop", "--replicas=0");
    await assert.rejects(shop.context.run("apply", { config, parameters }), {
      code: "conflict",
      message: /Deployment\.apps\/two\/shop was changed in the cluster; plan again/,
    });
    await shop.kubectl("scale", "deployment", "shop", "--replicas=1");
    await shop.deploy({ colour: "white" });
    await assert.rejects(shop.context.run("apply", { config, parameters }), {
      code: "conflict",
      message: /was at revision 1, deployed and now is at revision 2, deployed; plan again/,
    });
    assert.equal(await shop.kubectl("get", "configmap", "shop-config", "-o", COLOUR), "white");
  });

  test("what somebody changed or took away is drift, and the next deploy puts it right", async () => {
    const shop = await component("shop", "three");
    await shop.deploy();

    await shop.kubectl("delete", "service", "shop");
    await shop.kubectl("patch", "configmap", "shop-config", "-p", '{"data":{"colour":"mud"}}');
    const { status } = await shop.context.run("status");
    assert.equal(status?.health, "degraded");
    assert.equal(status?.drift?.found, true);
    assert.match(status?.drift?.summary ?? "", /ConfigMap three\/shop-config was changed/);
    assert.match(status?.drift?.summary ?? "", /Service shop is gone/);

    const repaired = await shop.deploy();
    assert.equal(repaired.plan?.summary, "1 to add, 1 to change, 0 to destroy");
    const { status: after } = await shop.context.run("status");
    assert.deepEqual([after?.health, after?.drift?.found], ["healthy", false], after?.because);
  });

  test("a release that does not become ready is rolled back and says why", async () => {
    const shop = await component("shop", "four");
    await shop.deploy();
    const config = shop.config({ command: ["exit", "3"], colour: "black" }, { timeoutSeconds: 8 });

    await assert.rejects(shop.context.run("apply", { config }), {
      code: "tool",
      message: /rolled back to revision 1: .*web .*exited with 3/,
    });
    assert.equal(await shop.kubectl("get", "configmap", "shop-config", "-o", COLOUR), "blue");
    const { status } = await shop.context.run("status");
    assert.equal(status?.health, "healthy", status?.because);

    const fresh = await component("shop", "five");
    await assert.rejects(fresh.context.run("apply", { config: { ...config, namespace: "five" } }), {
      message: /and was uninstalled/,
    });
    assert.deepEqual(await fresh.content(), []);
  });

  test("a helm that was killed leaves a release that the next deploy mends", async () => {
    const shop = await component("shop", "six");
    await shop.deploy();
    // As a job that dies whole leaves it: nobody is there to roll back.
    killUpgrade(cluster.kubeconfig, "six", "exclave.dev/component=iaaaaaaaaaaaaaaaa.shop");
    assert.match(shop.helm("list", "--pending", "-o", "json"), /pending-upgrade/);
    const { status } = await shop.context.run("status");
    assert.match(status?.because ?? "", /revision 2 is pending-upgrade/);

    const healed = await shop.deploy({ colour: "gold" });
    assert.match(healed.plan?.summary ?? "", /revision 2 is pending-upgrade/);
    assert.match(healed.logs.join("\n"), /rolled back to 1 first/);
    const { status: after } = await shop.context.run("status");
    assert.equal(after?.health, "healthy", after?.because);
    assert.equal(await shop.kubectl("get", "configmap", "shop-config", "-o", COLOUR), "gold");

    killUpgrade(cluster.kubeconfig, "six", "exclave.dev/component=null");
    await assert.rejects(shop.deploy({ colour: "tin" }), {
      code: "conflict",
      message: /was not begun by Exclave/,
    });
  });

  test("StatefulSets, DaemonSets, charts below a chart, definitions and their objects", async () => {
    const store = await component("store", "seven");
    await store.deploy();
    const { status } = await store.context.run("status");
    assert.deepEqual([status?.health, status?.drift?.found], ["healthy", false], status?.because);
    const smaller = await store.deploy({ cache: { enabled: false }, replicas: 1 });
    assert.deepEqual(
      [smaller.plan?.risk, smaller.plan?.summary],
      ["destroy", "0 to add, 1 to change, 1 to destroy"],
    );
    await store.context.run("destroy");
    assert.equal(await cluster.kubectl("get", "namespace", "seven", "--ignore-not-found"), "");

    const operator = await component("operator", "eight");
    const made = await operator.deploy();
    assert.match(made.plan?.summary ?? "", /^3 to add/);
    assert.equal(await operator.kubectl("get", "lamp", "operator", "-o", WATTS), "60");
    const { status: lit } = await operator.context.run("status");
    assert.deepEqual([lit?.health, lit?.drift?.found], ["healthy", false], lit?.because);
    await operator.context.run("destroy");
    assert.equal(
      await cluster.kubectl("get", "clusterrole", "operator-lamps", "--ignore-not-found"),
      "",
    );
  });

  test("the whole line: deployed, upgraded, helm and its job killed in the middle, deployed again, destroyed", async (t) => {
    const world = await createWorld(t);
    cpSync(join(CHARTS, "shop"), join(world.place, "app/chart"), { recursive: true });
    const write = (colour: string, seconds: number) =>
      world.write("app/exclave.yaml", appWith(cluster.kubeconfig, colour, seconds));
    const colour = () =>
      cluster.kubectl("-n", "line", "get", "configmap", "web-config", "-o", COLOUR);
    await world.up();
    write("blue", 0);
    await world.exclave("release", "app", "--channel", "stable", "--wait");
    await world.exclave("install", "create", "acme", "--app", "shop", "--wait");
    await untilHealthy(world, "acme");
    assert.equal(await colour(), "blue");
    const jobs = await world.jobs("--install", "acme", "--component", "web");
    const plan = jobs.find(({ operation }) => operation === "plan");
    assert.match(plan?.plan?.summary ?? "", /4 to add/);

    write("red", 20);
    await world.exclave("release", "app", "--channel", "stable", "--wait");
    await until("the migration runs", async () =>
      (await cluster.kubectl("-n", "line", "get", "pods", "-o", "name")).includes("web-migrate"),
    );
    assert.ok(world.kill("helm upgrade") > 0, "helm itself was killed");
    world.kill("runner.mjs");
    write("green", 0);
    await world.exclave("release", "app", "--channel", "stable", "--wait");
    await until("it is green", async () => (await colour()) === "green");
    await untilHealthy(world, "acme");

    await world.exclave("install", "destroy", "acme", "--yes", "--wait");
    assert.equal(await cluster.kubectl("get", "namespace", "line", "--ignore-not-found"), "");
    await world.exclave("audit", "verify");
    assert.deepEqual(world.pids("helm upgrade"), []);
  });
});

const COLOUR = "jsonpath={.data.colour}";
const SAID = "jsonpath={.data.said}";
const WATTS = "jsonpath={.spec.watts}";

/** An upgrade that is killed while its migration runs, long before it would end. */
function killUpgrade(kubeconfig: string, namespace: string, labels: string): void {
  const chart = join(CHARTS, "shop");
  const args = ["upgrade", "shop", chart, "--labels", labels, "--set", "migration.seconds=600"];
  const where = ["--namespace", namespace, "--kubeconfig", kubeconfig];
  assert.throws(() =>
    execFileSync("timeout", ["--signal=KILL", "4", "helm", ...args, ...where], { stdio: "ignore" }),
  );
}

function appWith(kubeconfig: string, colour: string, seconds: number): string {
  return `app: shop
components:
  - name: web
    type: helm
    source: ./chart
    namespace: line
    kubeconfig: ${kubeconfig}
    timeoutSeconds: 60
    statusEverySeconds: 10
    values:
      colour: ${colour}
      token: \${{ install.name }}
      migration: { seconds: ${seconds} }
`;
}
