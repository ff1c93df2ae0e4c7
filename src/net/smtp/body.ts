/**
 * The message as it goes over the wire: dot-stuffed (RFC 5321 §4.5.2) and ended by
 * `CRLF . CRLF`. The stored and signed bytes stay as they are; nearly every message needs no
 * stuffing and is not copied.
 */

const LF = 10;
const DOT = 46;
const LF_DOT = Buffer.from('\n.');
const END = Buffer.from('.\r\n');
const LINE_END_AND_END = Buffer.from('\r\n.\r\n');

/**
 * The pieces with dots stuffed. A dot after a bare LF is stuffed too: composed messages have
 * none, and a lenient server must never find the end of the data inside a message.
 */
export function dotStuffed(message: Buffer | readonly Buffer[]): readonly Buffer[] {
  const pieces = Buffer.isBuffer(message) ? [message] : message;
  if (!needsStuffing(pieces)) return pieces;
  return [stuff(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces))];
}

/** What follows the message: the dot, on a line of its own. */
export function finalDot(pieces: readonly Buffer[]): Buffer {
  const last = pieces.findLast((piece) => piece.length > 0);
  if (last === undefined) return END;
  // A line end split over two pieces gets an empty line more, which no composer produces.
  return last.length >= 2 && last.at(-1) === LF && last.at(-2) === 13 ? END : LINE_END_AND_END;
}

function needsStuffing(pieces: readonly Buffer[]): boolean {
  let before = LF;
  for (const piece of pieces) {
    if (piece.length === 0) continue;
    if (before === LF && piece[0] === DOT) return true;
    if (piece.includes(LF_DOT)) return true;
    before = piece[piece.length - 1]!;
  }
  return false;
}

function stuff(message: Buffer): Buffer {
  const parts: Buffer[] = [];
  let from = 0;
  if (message[0] === DOT) parts.push(END.subarray(0, 1));
  for (let at = message.indexOf(LF_DOT); at !== -1; at = message.indexOf(LF_DOT, at + 1)) {
    parts.push(message.subarray(from, at + 2));
    // The dot that was just written is written once more with what follows it.
    from = at + 1;
  }
  parts.push(message.subarray(from));
  return Buffer.concat(parts);
}
