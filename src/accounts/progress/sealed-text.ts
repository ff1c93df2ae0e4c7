/**
 * Seals what a sign-in in progress has to remember, as text for a cookie. The browser keeps it, so a flood of
 * unfinished sign-ins stores nothing here. Only this installation can read it, and only for ten minutes.
 */
import type { World } from '../../lib/world.ts';
import type { SecretBox } from '../../secrets/secret-box.ts';

const VALID_MS = 10 * 60_000;
/** Nodes have clocks of their own. */
const AHEAD_MAX_MS = 60_000;

type SealedTextOptions = { secrets: Pick<SecretBox, 'seal' | 'open'>; world: Pick<World, 'now'> };

export class SealedText<Content extends object> {
  readonly #secrets: SealedTextOptions['secrets'];
  readonly #world: SealedTextOptions['world'];
  readonly #purpose: string;

  /** @param purpose a text that was sealed for another purpose does not open */
  constructor({ secrets, world }: SealedTextOptions, purpose: string) {
    this.#secrets = secrets;
    this.#world = world;
    this.#purpose = purpose;
  }

  seal(content: Content): string {
    const plain = JSON.stringify({ atMs: this.#world.now(), content });
    return this.#secrets.seal(plain, this.#purpose).toString('base64url');
  }

  /** Returns null when the text is absent, was not sealed here, or is too old. */
  open(text: string | null): Content | null {
    if (text === null || text === '') return null;
    try {
      const plain = this.#secrets.open(Buffer.from(text, 'base64url'), this.#purpose);
      const { atMs, content } = JSON.parse(plain) as { atMs: number; content: Content };
      const ageMs = this.#world.now() - atMs;
      return ageMs > -AHEAD_MAX_MS && ageMs < VALID_MS ? content : null;
    } catch {
      return null;
    }
  }
}
