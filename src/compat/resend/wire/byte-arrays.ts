/**
 * Some clients send bytes as a JSON array of numbers (attachments of the Go, Rust and older Node libraries). This
 * file replaces such an array by one base64 string before the JSON is parsed. A file of a megabyte would otherwise be
 * a million members, which is more than a body may have (http/socket/json-body.ts), and would need fifty times its
 * memory.
 *
 * Only long arrays directly after `"content":` or `"data":` are replaced. email-wire.ts reads short ones. Everything
 * else, even malformed JSON, stays unchanged.
 */

/** Items. Shorter arrays stay, because they may be variables of a template. */
const LENGTH_MIN = 1_024;

/** Limit on white space between tokens, which keeps the scan linear. */
const SPACE_MAX = 64;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN = 0x5b;
const CLOSE = 0x5d;
const ZERO = 0x30;

const NAMES = [Buffer.from('"content"'), Buffer.from('"data"')];

/** Returns the same JSON with long byte arrays as strings. Linear in the length. */
export function packByteArrays(json: Buffer): Buffer {
  if (!NAMES.some((name) => json.includes(name))) return json;
  const pieces: Buffer[] = [];
  let kept = 0;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at]!;
    if (byte === QUOTE) at = endOfString(json, at + 1);
    else if (byte === OPEN && followsName(json, at)) {
      const array = measure(json, at + 1);
      if (array === null) continue;
      if (array.length >= LENGTH_MIN) {
        const text = bytesOf(json, at + 1, array.length).toString('base64');
        pieces.push(json.subarray(kept, at), Buffer.from(`"${text}"`));
        kept = array.end + 1;
      }
      at = array.end;
    }
  }
  return pieces.length === 0 ? json : Buffer.concat([...pieces, json.subarray(kept)]);
}

function endOfString(json: Buffer, from: number): number {
  let at = from;
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return at;
}

function followsName(json: Buffer, bracket: number): boolean {
  let at = beforeSpace(json, bracket - 1);
  if (json[at] !== COLON) return false;
  at = beforeSpace(json, at - 1);
  return NAMES.some((name) => {
    const start = at + 1 - name.length;
    return start >= 0 && json.compare(name, 0, name.length, start, at + 1) === 0;
  });
}

function beforeSpace(json: Buffer, from: number): number {
  let at = from;
  while (at > from - SPACE_MAX && isSpace(json[at])) at -= 1;
  return at;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/**
 * Returns the number of bytes in `12, 255]` and the offset of the bracket, or null when it is not a list of bytes.
 */
function measure(json: Buffer, from: number): { length: number; end: number } | null {
  let length = 0;
  let value = -1;
  for (let at = from; at < json.length; at += 1) {
    const byte = json[at]!;
    const digit = byte - ZERO;
    if (digit >= 0 && digit <= 9) {
      // `012` and `1 2` are not JSON.
      if (value === 0 || (value > 0 && isSpace(json[at - 1]))) return null;
      value = value === -1 ? digit : value * 10 + digit;
      if (value > 255) return null;
    } else if (byte === COMMA || byte === CLOSE) {
      if (value === -1) return null;
      value = -1;
      length += 1;
      if (byte === CLOSE) return { length, end: at };
    } else if (!isSpace(byte)) return null;
  }
  return null;
}

function bytesOf(json: Buffer, from: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let index = 0;
  for (let at = from; index < length; at += 1) {
    const digit = json[at]! - ZERO;
    if (digit >= 0 && digit <= 9) bytes[index] = bytes[index]! * 10 + digit;
    else if (!isSpace(json[at])) index += 1;
  }
  return bytes;
}
