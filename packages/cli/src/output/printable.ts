// What others wrote, made fit for a terminal. A log line, an error or a name may hold escape sequences
// that move the cursor, set the title, answer as if somebody typed, or hide text. On a terminal none of
// them gets through; where no terminal reads, bytes stay as they are.

/* oxlint-disable no-control-regex -- control characters are what is looked for */

/** The colours this program itself uses, and no others. */
const OWN_COLOURS = /^\u001B\[(0|1|2|31|32|33)m$/;

const SEQUENCE =
  /\u001B\[[0-?]*[ -/]*[@-~]|\u001B[\]PX^_][^\u0007\u001B\u009C]*(?:\u0007|\u001B\\|\u009C)?/g;
const CONTROL = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u202A-\u202E\u2066-\u2069]/g;

/** Text of ours with values of others in it: our colours stay, every other control goes. */
export function printable(text: string): string {
  return text
    .split(/(\u001B\[[0-9;]*m)/)
    .map((part) => (OWN_COLOURS.test(part) ? part : plain(part)))
    .join("");
}

/** Text of others: no sequence at all. What is left of a control is shown as `^[`. */
function plain(text: string): string {
  return text.replaceAll(SEQUENCE, "").replaceAll("\r\n", "\n").replaceAll(CONTROL, caret);
}

function caret(control: string): string {
  const code = control.charCodeAt(0);
  if (code < 0x20) return `^${String.fromCharCode(code + 0x40)}`;
  if (code === 0x7f) return "^?";
  return code < 0xa0 ? `^[${String.fromCharCode(code - 0x40)}` : "";
}

/** Bytes of a log as they come, in pieces that may end inside a letter or a sequence. */
export function createPrintableBytes(): { take(chunk: Uint8Array): string; end(): string } {
  const decoder = new TextDecoder();
  let held = "";
  return {
    take(chunk) {
      const text = held + decoder.decode(chunk, { stream: true });
      const cut = unfinishedAt(text);
      held = text.slice(cut);
      return plain(text.slice(0, cut));
    },
    end() {
      const rest = plain(held + decoder.decode());
      held = "";
      return rest;
    },
  };
}

/** A sequence that never ends is not waited for. */
const SEQUENCE_LETTERS_MAX = 4_096;

/** Where a sequence, or a carriage return that may belong to a line end, begins and does not end. */
function unfinishedAt(text: string): number {
  if (text.endsWith("\r")) return text.length - 1;
  const at = text.lastIndexOf("\u001B");
  if (at === -1 || text.length - at > SEQUENCE_LETTERS_MAX) return text.length;
  const rest = text.slice(at);
  const isWhole =
    /^\u001B(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\u0007\u001B\u009C]*[\u0007\u009C]|[^[\]PX^_])/.test(
      rest,
    );
  return isWhole ? text.length : at;
}
