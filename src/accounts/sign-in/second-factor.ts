/**
 * The optional second factor of a member: a code of an authenticator app, or a recovery code that was shown when the
 * second factor was switched on. Each code works once. Wrong codes are limited more strictly than passwords, because
 * there are only a million codes.
 */
import { type Limit, signInLimitRefusal } from '../../core/limits.ts';
import type { Refusal } from '../../core/refusals.ts';
import type { World } from '../../lib/world.ts';
import type { Queryable } from '../../database/database.ts';
import type { SecretBox } from '../../secrets/secret-box.ts';
import {
  enableTotp,
  findTotp,
  prepareTotp,
  removeTotp,
  type Totp,
  usePeriod,
  useRecoveryCode,
} from './totp-store.ts';
import { readFactors } from '../sessions/policy-store.ts';
import { AuthLimiter } from '../keys/auth-limiter.ts';
import {
  describeSecret,
  hashRecoveryCode,
  newRecoveryCodes,
  newSecret,
  matchPeriod,
} from './totp.ts';

/** Three of a million codes are valid at a time, so guessing one takes a year on average. */
const LIMIT: Limit = { max: 10, windowS: 900 };

const CODE_NEEDED: Refusal = {
  refused: 'totp_required',
  message: 'Enter the code of your authenticator app, or a recovery code.',
};
const CODE_WRONG: Refusal = {
  refused: 'totp_required',
  message: 'This code is wrong or was used already; wait for the next one.',
};
const PASSKEY_NEEDED: Refusal = {
  refused: 'authentication_error',
  message: 'This installation requires a second factor, and yours is a passkey. Sign in with it.',
};
const IS_REQUIRED: Refusal = {
  refused: 'conflict',
  message:
    'This installation requires a second factor; add a passkey before you switch this one off.',
};
const IS_ON: Refusal = {
  refused: 'conflict',
  message: 'The second factor is on; switch it off to begin again.',
};
const NOT_BEGUN: Refusal = {
  refused: 'conflict',
  message: 'No setup of a second factor is in progress; begin again.',
};
const CODE_INVALID: Refusal = {
  refused: 'validation_error',
  message: 'code: is not the current code of the app; check the clock of the device',
  details: [
    { field: 'code', message: 'is not the current code of the app; check the clock of the device' },
  ],
};

type SecondFactorOptions = { db: Queryable; secrets: SecretBox; world: Pick<World, 'monotonicMs'> };

export class SecondFactor {
  readonly #db: Queryable;
  readonly #secrets: SecretBox;
  readonly #limiter: AuthLimiter;

  constructor({ db, secrets, world }: SecondFactorOptions) {
    this.#db = db;
    this.#secrets = secrets;
    this.#limiter = new AuthLimiter(db, world, LIMIT);
  }

  /**
   * Returns null when the member may sign in.
   * @param code undefined when the member gave none
   * @param options.takesPasskeys false: the member cannot sign in with a passkey instead, so it is no second factor
   */
  async check(
    memberId: string,
    code: string | undefined,
    { takesPasskeys = true }: { takesPasskeys?: boolean } = {},
  ): Promise<Refusal | null> {
    const totp = await findTotp(this.#db, memberId);
    if (totp === null) return null;
    if (!totp.isEnabled) return takesPasskeys ? this.#checkWithoutCode(memberId) : null;
    if (code === undefined || code.trim() === '') return CODE_NEEDED;
    const limitKey = `code ${memberId}`;
    const { allowed, limit } = await this.#limiter.count(limitKey);
    if (!allowed) return signInLimitRefusal(limit);
    if (!(await this.#consumeCode(memberId, totp, code))) return CODE_WRONG;
    await this.#limiter.uncount([limitKey]);
    return null;
  }

  /** Creates a secret. It takes effect with its first code, and is returned only here. */
  async begin(memberId: string): Promise<{ secret: string; url: string } | Refusal> {
    const totp = await findTotp(this.#db, memberId);
    const secret = newSecret();
    const sealed = this.#secrets.seal(secret.toString('base64'), memberId);
    if (totp === null || !(await prepareTotp(this.#db, memberId, sealed))) return IS_ON;
    const issuer = `Letterhaus ${totp.organization}`;
    return describeSecret(secret, { issuer, email: totp.email });
  }

  /** Switches the second factor on with the first code. The recovery codes are returned only here. */
  async confirm(memberId: string, code: string): Promise<{ recoveryCodes: string[] } | Refusal> {
    const totp = await findTotp(this.#db, memberId);
    if (totp?.isEnabled === true) return IS_ON;
    const secret = totp?.secret ?? null;
    if (totp === null || secret === null) return NOT_BEGUN;
    const period = matchPeriod(this.#open(secret, memberId), code, totp.nowS);
    if (period === null) return CODE_INVALID;
    const recoveryCodes = newRecoveryCodes();
    const codes = recoveryCodes.map(hashRecoveryCode);
    const isOn = await enableTotp(this.#db, memberId, { secret, period, codes });
    return isOn ? { recoveryCodes } : NOT_BEGUN;
  }

  /** Returns null when it is off. */
  async remove(memberId: string): Promise<Refusal | null> {
    const { required, passkeys } = await readFactors(this.#db, memberId);
    if (required && passkeys === 0) return IS_REQUIRED;
    await removeTotp(this.#db, memberId);
    return null;
  }

  /** A stolen password must not be enough to set up another second factor. */
  async #checkWithoutCode(memberId: string): Promise<Refusal | null> {
    const { required, passkeys } = await readFactors(this.#db, memberId);
    return required && passkeys > 0 ? PASSKEY_NEEDED : null;
  }

  async #consumeCode(memberId: string, { secret, nowS }: Totp, code: string): Promise<boolean> {
    if (secret === null) return false;
    // Recovery codes work even when the secret does not open; the watch of the secrets reports that.
    const isOpen = this.#secrets.opens(secret, memberId);
    const period = isOpen ? matchPeriod(this.#open(secret, memberId), code, nowS) : null;
    if (period !== null) return usePeriod(this.#db, memberId, period);
    return useRecoveryCode(this.#db, memberId, hashRecoveryCode(code));
  }

  #open(sealed: Buffer, memberId: string): Buffer {
    return Buffer.from(this.#secrets.open(sealed, memberId), 'base64');
  }
}
