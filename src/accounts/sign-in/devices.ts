/**
 * Recognises browsers in which a member signed in before. Each such browser gets a cookie for a year. The cookie
 * grants no access. It only separates the browser from strangers when somebody signs in (sign-in-turns.ts,
 * sign-in-limits.ts), so a flood of guesses does not keep members out. The cookie is bound to the member and the
 * password: a new password ends it, and nothing is stored.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { SecretBox } from '../../secrets/secret-box.ts';
import { SignedText } from './signed-text.ts';

/** Purpose of the key that signs the proof. */
const KEY_PURPOSE = 'device password';

type Owner = { id: string; password: string };

export class Devices {
  readonly #secrets: Pick<SecretBox, 'derive' | 'deriveAll'>;
  readonly #signed: SignedText;

  constructor(secrets: Pick<SecretBox, 'derive' | 'deriveAll'>) {
    this.#secrets = secrets;
    this.#signed = new SignedText(secrets, 'device cookie');
  }

  cookieFor({ id, password }: Owner): string {
    const deviceId = randomBytes(16).toString('base64url');
    const proof = proofOf(password, this.#secrets.derive(KEY_PURPOSE)).toString('base64url');
    return this.#signed.sign(`${id}.${deviceId}.${proof}`);
  }

  /** Returns the content of a cookie that this service signed, else null. Needs no query; `isOf` checks the member. */
  read(cookie: string | null): Device | null {
    const text = cookie === null ? null : this.#signed.read(cookie);
    const [memberId, deviceId, proof] = text?.split('.') ?? [];
    if (memberId === undefined || deviceId === undefined || proof === undefined) return null;
    return { memberId, deviceId, proof: Buffer.from(proof, 'base64url') };
  }

  /** Returns whether this member signed in with that browser and has had the same password since. */
  isOf({ memberId, proof }: Device, { id, password }: Owner): boolean {
    return (
      memberId === id &&
      this.#secrets.deriveAll(KEY_PURPOSE).some((key) => {
        const expected = proofOf(password, key);
        return proof.length === expected.length && timingSafeEqual(proof, expected);
      })
    );
  }
}

export type Device = { memberId: string; deviceId: string; proof: Buffer };

/**
 * Returns a proof that the member has this password.
 * @param password the stored hash
 */
function proofOf(password: string, key: Buffer): Buffer {
  return createHmac('sha256', key).update(password).digest().subarray(0, 16);
}
