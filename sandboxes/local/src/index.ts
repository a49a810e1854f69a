export { type Home, installHome } from "./home.ts";
export { createLocalSandbox, plugin } from "./plugin.ts";
