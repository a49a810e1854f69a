// Cuts a stream of bytes into lines and holds no more of a line than is allowed: what is over is
// counted and let go, so that a program without line ends costs its reader nothing.

export interface SplitLine {
  /** Without its end; its beginning if it is longer than allowed. */
  readonly bytes: Uint8Array;
  /** How much of the line is missing. */
  readonly leftOutBytes: number;
}

export interface LineSplitter {
  /** The lines that end in this chunk. To be read to the end before the next one. */
  read(chunk: Uint8Array): Iterable<SplitLine>;
  /** What is left when no more comes; undefined after a line's end. */
  end(): SplitLine | undefined;
}

const NEWLINE = 10;

export function createLineSplitter(lineBytesMax: number): LineSplitter {
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  let leftOutBytes = 0;

  return {
    *read(chunk) {
      let start = 0;
      for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, start)) {
        hold(chunk.subarray(start, at));
        yield take();
        start = at + 1;
      }
      hold(chunk.subarray(start));
    },
    end: () => (heldBytes + leftOutBytes > 0 ? take() : undefined),
  };

  function hold(bytes: Uint8Array): void {
    const part = bytes.subarray(0, lineBytesMax - heldBytes);
    leftOutBytes += bytes.length - part.length;
    if (part.length === 0) return;
    // A copy: whoever reads files may use one buffer again and again.
    held.push(part.slice());
    heldBytes += part.length;
  }

  function take(): SplitLine {
    const line = { bytes: joined(held, heldBytes), leftOutBytes };
    held = [];
    heldBytes = 0;
    leftOutBytes = 0;
    return line;
  }
}

function joined(parts: readonly Uint8Array[], size: number): Uint8Array {
  const [only] = parts;
  if (parts.length === 1 && only) return only;
  const whole = new Uint8Array(size);
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}
