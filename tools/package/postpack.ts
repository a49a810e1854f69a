// Run by npm after it packed a package: the folder is again as the clone has it.

import { restorePackage } from "./swap.ts";

await restorePackage(process.cwd());
