// The cluster that other suites stand on: its pods run, speak and answer, and when it stops nothing of it is left.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { offerCluster } from "../../cluster/cluster.ts";
import { SAMPLE_IMAGE } from "../../cluster/sample-image.ts";
import { processes, until } from "../testing/harness.ts";

const offer = await offerCluster((line) => console.log(line));
const skip =
  offer.kind === "unavailable" && `${offer.because}: nothing was tried on a real cluster`;

test("a test cluster runs pods and leaves nothing behind", { skip }, async () => {
  assert.equal(offer.kind, "ready");
  const cluster = await offer.start();
  try {
    await cluster.kubectl(
      "run",
      "web",
      "--image",
      SAMPLE_IMAGE,
      "--image-pull-policy=Never",
      "--",
      "serve",
      "8080",
    );
    await cluster.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=120s");
    // A pod without a probe is ready when its program has begun, and that may not listen yet.
    await until("the pod listens", async () =>
      (await cluster.kubectl("logs", "web")).includes("listening on 8080"),
    );
    assert.equal(await cluster.kubectl("exec", "web", "--", "/sample", "print", "here"), "here\n");
    const address = await cluster.kubectl("get", "pod", "web", "-o", "jsonpath={.status.podIP}");
    assert.equal((await fetch(`http://${address}:8080/`)).status, 200);
  } finally {
    await cluster.stop();
  }

  assert.ok(!existsSync(cluster.directory));
  assert.deepEqual(processes(cluster.directory), []);
  assert.ok(!readFileSync("/proc/mounts", "utf8").includes(cluster.directory));
  const devices = execFileSync("ip", ["address"], { encoding: "utf8" });
  assert.doesNotMatch(devices, /exclave-test0|10\.199\./);
});
