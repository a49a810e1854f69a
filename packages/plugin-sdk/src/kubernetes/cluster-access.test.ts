import assert from "node:assert/strict";
import { test } from "node:test";
import { type AccessFacts, chooseAccess } from "./cluster-access.ts";

const NOTHING: AccessFacts = {
  kubeconfig: undefined,
  kubeconfigExists: false,
  inCluster: undefined,
};
const inCluster = { host: "10.0.0.1", port: "443" };

test("a job's own service account is used where its sandbox gives one", () => {
  assert.deepEqual(chooseAccess({ ...NOTHING, inCluster }), {
    KUBERNETES_SERVICE_HOST: "10.0.0.1",
    KUBERNETES_SERVICE_PORT: "443",
  });
});

test("a kubeconfig is for sandboxes that give none", () => {
  const named = { ...NOTHING, kubeconfig: "/etc/kube", kubeconfigExists: true };

  assert.deepEqual(chooseAccess(named), { KUBECONFIG: "/etc/kube" });
  assert.throws(() => chooseAccess({ ...named, inCluster }), { code: "invalid" });
});

test("says what is missing where there is no access", () => {
  assert.throws(() => chooseAccess(NOTHING), { code: "unavailable", message: /no access/ });
  assert.throws(() => chooseAccess({ ...NOTHING, kubeconfig: "/etc/kube" }), {
    code: "unavailable",
    message: /no kubeconfig at \/etc\/kube/,
  });
  assert.throws(() => chooseAccess({ ...NOTHING, kubeconfig: "kube", kubeconfigExists: true }), {
    code: "invalid",
  });
});
