// A text of several YAML documents as values, read as the tools of the field read it: version 1.1 of the language.

import { parseAllDocuments } from "yaml";
import { Failure } from "../failure.ts";
import { YAML_DOCUMENTS_BYTES_MAX } from "../limits.ts";

/** How often an alias may stand for something: beyond it a small text could mean a very large value. */
const ALIASES_MAX = 1_000;

/** Documents without content are left out. */
export function readYamlDocuments(text: string, name: string): unknown[] {
  if (text.length > YAML_DOCUMENTS_BYTES_MAX) {
    throw new Failure("too_large", `${name} has more than ${YAML_DOCUMENTS_BYTES_MAX} letters`);
  }
  const documents = parseAllDocuments(text, {
    version: "1.1",
    prettyErrors: false,
    uniqueKeys: false,
    logLevel: "silent",
  });
  if (!Array.isArray(documents)) return [];
  return documents.flatMap((document) => {
    const [error] = document.errors;
    if (error) {
      const line = text.slice(0, error.pos[0]).split("\n").length;
      throw new Failure("invalid", `${name}:${line}: this is not YAML: ${error.message}`);
    }
    const value: unknown = document.toJS({ maxAliasCount: ALIASES_MAX });
    return value === null || value === undefined ? [] : [value];
  });
}
