/**
 * Makes distinct messages at low cost. A template is built once. Each message is a copy with another token of fixed
 * length at many places. No two messages share their html, their subject or their recipient, so no cache of the service
 * under test can help.
 */

/**
 * Placeholder for ten characters that differ in each message. Plain letters need no escaping, which would change the
 * length.
 */
export const TOKEN = 'TokenToken';

const TOKEN_MARK = Buffer.from(TOKEN);
const TOKENS = 36 ** TOKEN.length;
/** Factor coprime to TOKENS, so that successive tokens differ and none repeats. */
const SPREAD = 7_919;

export class Template {
  readonly #bytes: Buffer;
  readonly #slots: readonly number[];

  constructor(text: string) {
    this.#bytes = Buffer.from(text);
    this.#slots = slotsOf(this.#bytes);
  }

  /** Returns a copy for the message with this number, with a unique token. */
  fill(number: number): Buffer {
    const copy = Buffer.from(this.#bytes);
    const token = tokenOf(number);
    for (const slot of this.#slots) copy.set(token, slot);
    return copy;
  }
}

function slotsOf(bytes: Buffer): number[] {
  const slots: number[] = [];
  for (let at = bytes.indexOf(TOKEN_MARK); at >= 0; at = bytes.indexOf(TOKEN_MARK, at + 1)) {
    slots.push(at);
  }
  return slots;
}

function tokenOf(number: number): Buffer {
  return Buffer.from(((number * SPREAD) % TOKENS).toString(36).padStart(TOKEN.length, '0'));
}
