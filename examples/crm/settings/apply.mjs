// Runs in the install whenever it changed. What it leaves in EXCLAVE_OUTPUTS, others refer to.
import { writeFileSync } from "node:fs";

const { COMPANY, INSTALL, EXCLAVE_OUTPUTS } = process.env;

const settings = { title: `${COMPANY} CRM`, currency: "EUR" };
writeFileSync(EXCLAVE_OUTPUTS, JSON.stringify(settings));
console.log(`settings of ${INSTALL}: ${settings.title}, ${settings.currency}`);
