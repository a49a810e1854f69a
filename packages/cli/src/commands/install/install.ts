// One noun, its verbs in files of their own.

import type { Command } from "commander";
import type { Invocation } from "../../program/cli.ts";
import { addInstallCreate } from "./install-create.ts";
import { addInstallDeploy } from "./install-deploy.ts";
import { addInstallDestroy } from "./install-destroy.ts";
import { addInstallForget } from "./install-forget.ts";
import { addInstallList } from "./install-list.ts";
import { addInstallLoad } from "./install-load.ts";
import { addInstallSetup } from "./install-setup.ts";
import { addInstallShow } from "./install-show.ts";

export function addInstallCommands(program: Command, invocation: Invocation): void {
  const install = program
    .command("install")
    .alias("installs")
    .description("customers' running copies of an app");

  addInstallCreate(install, invocation);
  addInstallList(install, invocation);
  addInstallShow(install, invocation);
  addInstallDeploy(install, invocation);
  addInstallSetup(install, invocation);
  addInstallLoad(install, invocation);
  addInstallDestroy(install, invocation);
  addInstallForget(install, invocation);
}
