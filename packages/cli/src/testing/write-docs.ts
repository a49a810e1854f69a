// Writes the reference pages that are made from the program. Usage: npm run docs -w exclave

import { writeFile } from "node:fs/promises";
import { writtenPages } from "./written-pages.ts";

for (const { file, text } of writtenPages()) {
  await writeFile(file, text);
  process.stdout.write(`wrote ${file.pathname}\n`);
}
