#!/usr/bin/env node
// Written so that even a very old Node reads it: it finds a Node that is new enough, or says so.
import * as childProcess from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as url from "node:url";

var NODE_MAJOR_MIN = 24;
var here = path.dirname(fs.realpathSync(url.fileURLToPath(import.meta.url)));

if (Number(process.versions.node.split(".")[0]) >= NODE_MAJOR_MIN) {
  var source = path.join(here, "..", "src", "main.ts");
  var inClone = here.split(path.sep).indexOf("node_modules") === -1 && fs.existsSync(source);
  var main = inClone ? source : path.join(here, "..", "dist", "main.js");
  import(url.pathToFileURL(main).href).catch(function (reason) {
    console.error(reason);
    process.exitCode = 70;
  });
} else {
  runWith(findNode());
}

/** A clone brings its own Node as a development dependency. */
function findNode() {
  var candidate = path.join(here, "..", "..", "..", "node_modules", "node", "bin", "node");
  return fs.existsSync(candidate) ? candidate : undefined;
}

function runWith(node) {
  if (node === undefined) {
    console.error(
      "exclave needs Node " +
        NODE_MAJOR_MIN +
        " or newer and this is " +
        process.version +
        ": install a newer Node, or run `npm ci` in the clone, which brings one.",
    );
    process.exitCode = 2;
    return;
  }
  var child = childProcess.spawn(
    node,
    [url.fileURLToPath(import.meta.url)].concat(process.argv.slice(2)),
    { stdio: "inherit" },
  );
  // A terminal sends its signals to both, and the other knows an echo from a second one.
  ["SIGINT", "SIGTERM", "SIGHUP"].forEach(function (signal) {
    process.on(signal, function () {
      child.kill(signal);
    });
  });
  child.on("error", function (reason) {
    console.error("exclave cannot start " + node + ": " + reason.message);
    process.exitCode = 2;
  });
  child.on("exit", function (code, signal) {
    process.exitCode = signal ? 128 + (os.constants.signals[signal] || 0) : code;
  });
}
