/**
 * Signs texts that the service gives to browsers (`text.mac`), and checks them when they come back. A forged text is
 * refused without a query.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { SecretBox } from '../../secrets/secret-box.ts';

type Keys = Pick<SecretBox, 'derive' | 'deriveAll'>;

export class SignedText {
  readonly #secrets: Keys;
  readonly #purpose: string;

  /** @param purpose texts signed for another purpose are not valid */
  constructor(secrets: Keys, purpose: string) {
    this.#secrets = secrets;
    this.#purpose = purpose;
  }

  sign(text: string): string {
    return `${text}.${macOf(this.#secrets.derive(this.#purpose), text).toString('base64url')}`;
  }

  /** Returns the text; null when no secret key in use has signed it. */
  read(signed: string): string | null {
    const dot = signed.lastIndexOf('.');
    if (dot === -1) return null;
    const text = signed.slice(0, dot);
    const signature = Buffer.from(signed.slice(dot + 1), 'base64url');
    const isValid = this.#secrets.deriveAll(this.#purpose).some((key) => {
      const expected = macOf(key, text);
      return signature.length === expected.length && timingSafeEqual(signature, expected);
    });
    return isValid ? text : null;
  }
}

function macOf(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
