// Manifests and kustomizations on a real cluster: each promise of the plugin by itself, then the whole line.

import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { plugin } from "@exclave/plugin-kubernetes";
import { createTestContext } from "@exclave/plugin-sdk/testing";
import { type Cluster, offerCluster } from "../../cluster/cluster.ts";
import { createWorld, until, untilHealthy } from "../testing/harness.ts";

const offer = await offerCluster((line) => console.log(line));
const skip =
  offer.kind === "unavailable" && `${offer.because}: manifests were not tried on a real cluster`;

describe("manifests on a real cluster", { skip }, () => {
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

  async function component(namespace: string, name = "web") {
    const base = { namespace, kubeconfig: cluster.kubeconfig, timeoutSeconds: 60 };
    const context = await createTestContext(plugin, { component: name, config: base });
    directories.push(context.directory);
    const kubectl = (...args: readonly string[]) => cluster.kubectl("-n", namespace, ...args);
    const write = (files: Readonly<Record<string, string>>) => writeFiles(context.files, files);
    /** Plans, and applies exactly that. */
    const deploy = async (more: Readonly<Record<string, unknown>> = {}) => {
      const config = { ...base, ...more };
      const { plan, logs } = await context.run("plan", { config });
      const parameters = { planFile: plan?.file };
      await context.run("apply", { config, parameters });
      return { ...plan, said: logs.join("\n") };
    };
    const status = async () => (await context.run("status")).status;
    return { context, base, kubectl, write, deploy, status };
  }

  test("manifests are planned, applied with their variables, changed, pruned and destroyed", async () => {
    const web = await component("one");
    web.write({ "app.yaml": deployment("web"), "config.yaml": configMap("settings", "${COLOUR}") });
    assert.equal((await web.status())?.health, "missing");

    const made = await web.deploy({ variables: { COLOUR: "blue" } });
    assert.equal(made.summary, "2 to add, 0 to change, 0 to destroy");
    const status = await web.status();
    assert.deepEqual([status?.health, status?.drift?.found], ["healthy", false], status?.because);
    assert.equal(await web.kubectl("get", "configmap", "settings", "-o", COLOUR), "blue");

    web.write({ "app.yaml": deployment("web", 2), "config.yaml": configMap("other", "red") });
    const changed = await web.deploy();
    assert.deepEqual(
      [changed.risk, changed.summary],
      ["destroy", "1 to add, 1 to change, 1 to destroy"],
    );
    assert.match(changed.said, /- ConfigMap one\/settings/);
    assert.match(changed.said, /spec\.replicas: 1 → 2/);
    assert.equal(await web.kubectl("get", "configmap", "settings", "--ignore-not-found"), "");
    assert.equal((await web.deploy()).risk, "none");

    assert.match((await web.context.run("logs")).logs.join("\n"), /listening on 8080/);
    const parameters = { command: ["/sample", "exit", "4"] };
    assert.equal((await web.context.run("exec", { parameters })).exitCode, 4);

    await web.context.run("destroy");
    assert.equal(await cluster.kubectl("get", "namespace", "one", "--ignore-not-found"), "");
    assert.equal((await web.status())?.health, "missing");
  });

  test("what belongs to somebody else is neither changed nor deleted", async () => {
    const web = await component("two");
    await cluster.kubectl("create", "namespace", "two");
    await web.kubectl("create", "configmap", "shared", "--from-literal=colour=theirs");
    web.write({ "config.yaml": configMap("shared", "ours") });
    await assert.rejects(web.deploy(), { code: "conflict", message: /not this component's/ });
    assert.equal(await web.kubectl("get", "configmap", "shared", "-o", COLOUR), "theirs");

    web.write({ "config.yaml": configMap("own", "ours") });
    await web.deploy();
    const other = await component("two", "api");
    other.write({ "config.yaml": configMap("own", "the api's") });
    await assert.rejects(other.deploy({ adopt: true }), {
      code: "conflict",
      message: /belongs to another component/,
    });

    // Somebody takes it over: from then on it is theirs, and a destroy leaves it.
    await web.kubectl("label", "configmap", "own", "exclave.dev/component-");
    await web.context.run("destroy");
    assert.equal(await web.kubectl("get", "configmap", "own", "-o", COLOUR), "ours");
    assert.equal(await web.kubectl("get", "configmap", "shared", "-o", COLOUR), "theirs");
  });

  test("drift is found and put right, and a plan that a change made stale is refused", async () => {
    const web = await component("three");
    web.write({ "a.yaml": configMap("a", "one"), "b.yaml": configMap("b", "one") });
    await web.deploy();
    const { plan } = await web.context.run("plan");

    await web.kubectl("patch", "configmap", "a", "-p", '{"data":{"colour":"theirs"}}');
    await web.kubectl("delete", "configmap", "b");
    const status = await web.status();
    assert.equal(status?.health, "degraded");
    assert.match(status?.drift?.summary ?? "", /ConfigMap three\/a was changed \(data\.colour\)/);
    assert.match(status?.drift?.summary ?? "", /ConfigMap b is gone/);
    await assert.rejects(
      web.context.run("apply", { config: web.base, parameters: { planFile: plan?.file } }),
      { code: "conflict", message: /was changed in the cluster; plan again/ },
    );

    await web.deploy();
    assert.equal((await web.status())?.health, "healthy");
    assert.equal(await web.kubectl("get", "configmap", "a", "-o", COLOUR), "one");
  });

  test("what does not become ready fails with the reason of its pod, and says so until it is mended", async () => {
    const web = await component("four");
    web.write({ "app.yaml": deployment("web", 1, '["exit", "3"]') });

    await assert.rejects(web.deploy({ timeoutSeconds: 6 }), {
      code: "tool",
      message: /is not ready after 6 s: .*web.*exited with 3/,
    });
    assert.equal((await web.status())?.health, "degraded");

    web.write({ "app.yaml": deployment("web") });
    await web.deploy();
    assert.equal((await web.status())?.health, "healthy");
    await web.context.run("destroy");
    assert.equal(await cluster.kubectl("get", "namespace", "four", "--ignore-not-found"), "");
  });

  test("a kind and its objects come in one apply, and so does a namespace of one's own", async () => {
    const web = await component("five");
    web.write({ "all.yaml": [LAMP_KIND, LAMP, NAMESPACE].join("---\n") });

    const made = await web.deploy();
    assert.equal(made.summary, "3 to add, 0 to change, 0 to destroy");
    assert.equal(await web.kubectl("get", "lamp", "desk", "-o", "jsonpath={.spec.watts}"), "40");
    const status = await web.status();
    assert.deepEqual([status?.health, status?.drift?.found], ["healthy", false], status?.because);
    await web.context.run("destroy");
    const left = await cluster.kubectl("get", "crd,namespace", "-o", "name");
    assert.doesNotMatch(left, /lamps|five|extra/);
  });

  test("the whole line with a kustomization: built, deployed, drifted, repaired, destroyed", async (t) => {
    const world = await createWorld(t);
    const write = (colour: string) => {
      world.write("app/base/config.yaml", configMap("settings", colour));
      world.write("app/base/app.yaml", deployment("web"));
      world.write(
        "app/base/kustomization.yaml",
        "resources: [config.yaml, app.yaml]\nnamePrefix: kz-\n",
      );
      world.write("app/exclave.yaml", appWith(cluster.kubeconfig));
    };
    const settings = () =>
      cluster.kubectl("-n", "line", "get", "configmap", "kz-settings", "-o", COLOUR);
    await world.up();
    write("${OWNER}");
    await world.exclave("release", "app", "--channel", "stable", "--wait");
    await world.exclave("install", "create", "acme", "--app", "kube", "--wait");
    await untilHealthy(world, "acme");
    assert.equal(await settings(), "acme");

    await cluster.kubectl("-n", "line", "delete", "configmap", "kz-settings");
    await until("the drift is shown", async () => {
      const [one] = (await world.install("acme")).components;
      return one?.drift?.found === true;
    });
    write("second");
    await world.exclave("release", "app", "--channel", "stable", "--wait");
    await until("it is put right", async () => (await settings()) === "second");
    await untilHealthy(world, "acme");

    await world.exclave("install", "destroy", "acme", "--yes", "--wait");
    assert.equal(await cluster.kubectl("get", "namespace", "line", "--ignore-not-found"), "");
    await world.exclave("audit", "verify");
  });
});

const COLOUR = "jsonpath={.data.colour}";

function configMap(name: string, colour: string): string {
  return `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: ${name} }\ndata: { colour: "${colour}" }\n`;
}

function deployment(name: string, replicas = 1, args = '["serve", "8080"]'): string {
  return `apiVersion: apps/v1
kind: Deployment
metadata: { name: ${name} }
spec:
  replicas: ${replicas}
  selector: { matchLabels: { app: ${name} } }
  template:
    metadata: { labels: { app: ${name} } }
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - { name: web, image: "exclave.test/sample:1", imagePullPolicy: Never, args: ${args} }
`;
}

const LAMP_KIND = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: lamps.lights.test }
spec:
  group: lights.test
  scope: Namespaced
  names: { kind: Lamp, plural: lamps, singular: lamp }
  versions:
    - name: v1
      served: true
      storage: true
      schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
`;
const LAMP =
  "apiVersion: lights.test/v1\nkind: Lamp\nmetadata: { name: desk }\nspec: { watts: 40 }\n";
const NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: { name: extra }\n";

function appWith(kubeconfig: string): string {
  return `app: kube
components:
  - name: web
    type: kubernetes
    source: ./base
    namespace: line
    kubeconfig: ${kubeconfig}
    timeoutSeconds: 60
    statusEverySeconds: 5
    variables: { OWNER: "\${{ install.name }}" }
`;
}

/** The files of a component, and none that it had before. */
function writeFiles(directory: string, files: Readonly<Record<string, string>>): void {
  rmSync(directory, { recursive: true, force: true });
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true });
    writeFileSync(join(directory, name), text);
  }
}
