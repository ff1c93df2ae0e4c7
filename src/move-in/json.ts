/**
 * Reads the records of a JSON file as it arrives: the elements of an array, alone or within an object
 * (`{"Suppressions": […]}`), or one object per line. A file may contain several documents, such as appended pages.
 *
 * Keeps one record in memory. A record longer than 16 KB is reported and skipped; the others are read. Text that is
 * not JSON ends the reading with NotJson.
 */

export type JsonRecord = {
  line: number;
  /** Its position among all records of the file, counted from 1. */
  item: number;
} & ({ value: unknown } | { problem: string });

export class NotJson extends Error {
  override readonly name = 'NotJson';
}

const RECORD_MAX_LENGTH = 16 * 1024;
const TOO_LONG = `The entry is longer than ${RECORD_MAX_LENGTH / 1024} KB`;

/** An incomplete value is scanned again once this many more characters have arrived. */
const READ_AT_ONCE_LENGTH = 16 * 1024;

/** @param holdsRecords returns whether the array with this name in an object contains the records */
export async function* readJson(
  pieces: AsyncIterable<Uint8Array>,
  holdsRecords: (name: string) => boolean,
): AsyncGenerator<JsonRecord[]> {
  const utf8 = new TextDecoder('utf-8');
  const reader = new Reader(holdsRecords);
  let text = '';
  for await (const piece of pieces) {
    text += utf8.decode(piece, { stream: true });
    if (text.length < READ_AT_ONCE_LENGTH) continue;
    yield reader.read(text, { isEnd: false });
    text = '';
  }
  yield reader.read(text + utf8.decode(), { isEnd: true });
}

/**
 * The next token. `member` is the value of the member `#name`. `first…` may also be the end of its object or array.
 */
type Expected =
  | 'document'
  | 'first_name'
  | 'name'
  | 'colon'
  | 'member'
  | 'after_member'
  | 'first_element'
  | 'element'
  | 'after_element';

const EXPECTED_TEXTS: Readonly<Record<Expected, string>> = {
  document: '{ or [',
  first_name: 'a name in quotes or }',
  name: 'a name in quotes',
  colon: 'a colon',
  member: 'a value',
  after_member: 'a comma or }',
  first_element: 'a value or ]',
  element: 'a value',
  after_element: 'a comma or ]',
};

type Skipped = { depth: number; isInString: boolean; isEscaped: boolean };

type Scan = { kind: 'whole'; value: unknown } | { kind: 'long' } | { kind: 'more' };

class Reader {
  readonly #holdsRecords: (name: string) => boolean;
  #text = '';
  #at = 0;
  #isEnd = false;
  #line = 1;
  /** Offset of the next line end, so that no text is searched twice. */
  #lineEnd = -1;
  #items = 0;
  #expected: Expected = 'document';
  #skipped: Skipped | null = null;
  /** Object around the array of records; null when the array is the document. */
  #object: Map<string, unknown> | null = null;
  #objectLine = 1;
  #objectLength = 0;
  #hasRecords = false;
  #name = '';
  #records: JsonRecord[] = [];

  constructor(holdsRecords: (name: string) => boolean) {
    this.#holdsRecords = holdsRecords;
  }

  read(text: string, { isEnd }: { isEnd: boolean }): JsonRecord[] {
    this.#text = this.#text.slice(this.#at) + text;
    this.#at = 0;
    this.#lineEnd = this.#nextLineEnd(0);
    this.#isEnd = isEnd;
    while (this.#step());
    if (isEnd && (this.#expected !== 'document' || this.#skipped !== null)) {
      throw new NotJson(`The JSON ends in line ${this.#line} before it is complete`);
    }
    const records = this.#records;
    this.#records = [];
    return records;
  }

  /** @returns whether it advanced; otherwise more text is needed */
  #step(): boolean {
    if (this.#skipped !== null) return this.#skip(this.#skipped);
    this.#advance(endOfSpace(this.#text, this.#at));
    const next = this.#text[this.#at];
    if (next === undefined) return false;
    switch (this.#expected) {
      case 'document':
        return this.#begin(next);
      case 'first_name':
        if (next === '}') return this.#endObject();
        return this.#readName(next);
      case 'name':
        return this.#readName(next);
      case 'colon':
        return this.#take(next, ':', 'member');
      case 'member':
        return this.#readMember(next);
      case 'after_member':
        if (next === '}') return this.#endObject();
        return this.#take(next, ',', 'name');
      case 'first_element':
        if (next === ']') return this.#endArray();
        return this.#readElement();
      case 'element':
        return this.#readElement();
      case 'after_element':
        if (next === ']') return this.#endArray();
        return this.#take(next, ',', 'element');
    }
  }

  #begin(next: string): boolean {
    if (next === '[') {
      this.#object = null;
      return this.#take(next, '[', 'first_element');
    }
    this.#object = new Map();
    this.#objectLine = this.#line;
    this.#objectLength = 0;
    this.#hasRecords = false;
    return this.#take(next, '{', 'first_name');
  }

  #readName(next: string): boolean {
    if (next !== '"') throw this.#unexpected();
    const scan = this.#scan();
    if (scan.kind === 'more') return false;
    if (scan.kind === 'long') throw new NotJson(`Line ${this.#line}: a name is too long`);
    this.#name = String(scan.value);
    this.#expected = 'colon';
    return true;
  }

  #readMember(next: string): boolean {
    if (next === '[' && this.#holdsRecords(this.#name)) {
      this.#hasRecords = true;
      return this.#take(next, '[', 'first_element');
    }
    const from = this.#at;
    const scan = this.#scan();
    if (scan.kind === 'more') return false;
    this.#expected = 'after_member';
    if (scan.kind === 'long') {
      this.#objectLength = Infinity;
      return true;
    }
    this.#objectLength += this.#name.length + this.#at - from;
    if (this.#objectLength <= RECORD_MAX_LENGTH) this.#object?.set(this.#name, scan.value);
    return true;
  }

  #readElement(): boolean {
    const line = this.#line;
    const scan = this.#scan();
    if (scan.kind === 'more') return false;
    this.#items += 1;
    const where = { line, item: this.#items };
    this.#records.push(
      scan.kind === 'long' ? { ...where, problem: TOO_LONG } : { ...where, value: scan.value },
    );
    this.#expected = 'after_element';
    return true;
  }

  #endArray(): boolean {
    return this.#take(']', ']', this.#object === null ? 'document' : 'after_member');
  }

  /** An object without an array of records is a record itself. */
  #endObject(): boolean {
    if (!this.#hasRecords) {
      this.#items += 1;
      const where = { line: this.#objectLine, item: this.#items };
      const isLong = this.#objectLength > RECORD_MAX_LENGTH;
      const value = Object.fromEntries(this.#object ?? []);
      this.#records.push(isLong ? { ...where, problem: TOO_LONG } : { ...where, value });
    }
    this.#object = null;
    return this.#take('}', '}', 'document');
  }

  #take(next: string, wanted: string, then: Expected): true {
    if (next !== wanted) throw this.#unexpected();
    this.#at += 1;
    this.#expected = then;
    return true;
  }

  #scan(): Scan {
    const text = this.#text;
    const end = endOfValue(text, this.#at, this.#isEnd);
    if (end !== null && end - this.#at <= RECORD_MAX_LENGTH) {
      const value = this.#parse(text.slice(this.#at, end));
      this.#advance(end);
      return { kind: 'whole', value };
    }
    if (end === null && text.length - this.#at <= RECORD_MAX_LENGTH) return { kind: 'more' };
    if (!'{["'.includes(text[this.#at] ?? '')) throw this.#unexpected();
    this.#skipped = { depth: 0, isInString: false, isEscaped: false };
    return { kind: 'long' };
  }

  #parse(text: string): unknown {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      throw this.#unexpected();
    }
  }

  #skip(state: Skipped): boolean {
    for (let at = this.#at; at < this.#text.length; at += 1) {
      if (!isLast(this.#text.charCodeAt(at), state)) continue;
      this.#skipped = null;
      this.#advance(at + 1);
      return true;
    }
    this.#advance(this.#text.length);
    return false;
  }

  #advance(to: number): void {
    while (this.#lineEnd < to) {
      this.#line += 1;
      this.#lineEnd = this.#nextLineEnd(this.#lineEnd + 1);
    }
    this.#at = to;
  }

  #nextLineEnd(from: number): number {
    const found = this.#text.indexOf('\n', from);
    return found === -1 ? Infinity : found;
  }

  #unexpected(): NotJson {
    return new NotJson(
      `Line ${this.#line} is not JSON: ${EXPECTED_TEXTS[this.#expected]} is expected`,
    );
  }
}

function endOfSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && ' \t\r\n'.includes(text[at] ?? '')) at += 1;
  return at;
}

const LITERAL = /[-+.\w]/;

function endOfValue(text: string, from: number, isEnd: boolean): number | null {
  if ('{["'.includes(text[from] ?? '')) {
    const state: Skipped = { depth: 0, isInString: false, isEscaped: false };
    const until = Math.min(text.length, from + RECORD_MAX_LENGTH + 1);
    for (let at = from; at < until; at += 1) {
      if (isLast(text.charCodeAt(at), state)) return at + 1;
    }
    return null;
  }
  let at = from;
  while (at < text.length && at - from <= RECORD_MAX_LENGTH && LITERAL.test(text[at] ?? ''))
    at += 1;
  // At least one character, so that JSON.parse refuses it.
  if (at < text.length) return Math.max(at, from + 1);
  return isEnd ? at : null;
}

const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = [0x7b, 0x7d, 0x5b, 0x5d];

/** Updates the state. Returns whether the character ends the string, object or array that began at depth 0. */
function isLast(code: number, state: Skipped): boolean {
  if (state.isInString) {
    if (state.isEscaped) state.isEscaped = false;
    else if (code === BACKSLASH) state.isEscaped = true;
    else if (code === QUOTE) state.isInString = false;
    else return false;
    return !state.isInString && state.depth === 0;
  }
  if (code === QUOTE) state.isInString = true;
  else if (code === OPEN_OBJECT || code === OPEN_ARRAY) state.depth += 1;
  else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
    state.depth -= 1;
    return state.depth === 0;
  }
  return false;
}
