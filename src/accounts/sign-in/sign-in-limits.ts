/**
 * Limits guesses of passwords. A guess is counted before the password is hashed. The count is taken back when the
 * password was right or was not tried. Each guess counts against the limit of failed authentications
 * (LETTERHAUS_LIMIT_AUTH, 20 in a minute):
 *
 *     who guesses                            counted by
 *     a stranger                             client, account and network, account
 *     a browser of an earlier sign-in        the browser (accounts/sign-in/devices.ts)
 *     a member who is signed in              the member
 *
 * A stranger is refused after 20 failures of the client, or of the account from the same network: guesses from one
 * network do not lock out the owner of the account elsewhere. After 100 failures of an account in an hour from all
 * networks, each network may try it 4 times a minute instead of 20. That slows a guesser with many networks, and
 * still lets the owner in from a new place.
 */
import { createHash } from 'node:crypto';
import { type Limit, type LimitState, signInLimitRefusal } from '../../core/limits.ts';
import { Overloaded, type Refusal } from '../../core/refusals.ts';
import type { World } from '../../lib/world.ts';
import type { Queryable } from '../../database/database.ts';
import { AuthLimiter } from '../keys/auth-limiter.ts';
import type { TurnOwner } from './sign-in-turns.ts';
import { DAY_S } from '../../lib/units.ts';

/** After `failures` × the limit in `windows` windows, an account is under attack. Then `part` of the limit is left. */
const ACCOUNT_UNDER_ATTACK = { failures: 5, windows: 60, part: 1 / 5 } as const;

/** Who guesses. `turnOwner` is the owner of the turn for hashing (sign-in-turns.ts). */
export type Guesser = { turnOwner: TurnOwner } & (
  | { kind: 'stranger'; client: string; account: string }
  | { kind: 'device'; deviceId: string }
  | { kind: 'member' }
);

export type Guess = { isRight: boolean };
export type LimitRefusal = Refusal & { limit: LimitState };

export function strangerAt(
  { client, network }: { client: string; network: string },
  emailKey: string,
): Guesser {
  const turnOwner = { isKnown: false, owner: network };
  return { kind: 'stranger', turnOwner, client, account: accountOf(emailKey) };
}

export function memberWithDevice(memberId: string, deviceId: string): Guesser {
  return { kind: 'device', turnOwner: { isKnown: true, owner: memberId }, deviceId };
}

export function signedInMember(memberId: string): Guesser {
  return { kind: 'member', turnOwner: { isKnown: true, owner: memberId } };
}

export class SignInLimits {
  readonly #limiter: AuthLimiter;
  readonly #everywhere: AuthLimiter;
  readonly #reducedMax: number;

  constructor(db: Queryable, world: Pick<World, 'monotonicMs'>, limit: Limit) {
    const { max, windowS } = limit;
    this.#limiter = new AuthLimiter(db, world, limit);
    this.#everywhere = new AuthLimiter(db, world, {
      max: max * ACCOUNT_UNDER_ATTACK.failures,
      windowS: Math.min(DAY_S, windowS * ACCOUNT_UNDER_ATTACK.windows),
    });
    this.#reducedMax = Math.max(1, Math.floor(max * ACCOUNT_UNDER_ATTACK.part));
  }

  /**
   * Runs `isRight`, which hashes the password, and counts the guess unless it is right.
   * @throws Overloaded when the password was not tried, which is not counted
   */
  async guess(guesser: Guesser, isRight: () => Promise<boolean>): Promise<Guess | LimitRefusal> {
    const refusal = await this.#count(guesser);
    if (refusal !== null) return refusal;
    try {
      const guess = { isRight: await isRight() };
      if (guess.isRight) await this.#uncount(guesser);
      return guess;
    } catch (error) {
      if (error instanceof Overloaded) await this.#uncount(guesser);
      throw error;
    }
  }

  async #count(guesser: Guesser): Promise<LimitRefusal | null> {
    let last: LimitState | null = null;
    for (const key of keysOf(guesser)) {
      const { allowed, limit } = await this.#limiter.count(key);
      if (!allowed) return signInLimitRefusal(limit);
      last = limit;
    }
    if (guesser.kind !== 'stranger' || last === null) return null;
    const { allowed } = await this.#everywhere.count(guesser.account);
    const isBeyondReduced = !allowed && last.limit - last.remaining > this.#reducedMax;
    return isBeyondReduced ? signInLimitRefusal({ ...last, remaining: 0 }) : null;
  }

  async #uncount(guesser: Guesser): Promise<void> {
    await this.#limiter.uncount(keysOf(guesser));
    if (guesser.kind === 'stranger') await this.#everywhere.uncount([guesser.account]);
  }
}

/** Returns the keys to count by. The last key of a stranger is the one of account and network. */
function keysOf(guesser: Guesser): string[] {
  const { owner } = guesser.turnOwner;
  switch (guesser.kind) {
    case 'stranger':
      return [guesser.client, `${guesser.account} ${owner}`];
    case 'device':
      return [`device ${guesser.deviceId}`];
    case 'member':
      return [`member ${owner}`];
  }
}

/** Returns the key of an account in the counts per client. It is hashed, so no address is stored there. */
function accountOf(emailKey: string): string {
  return `account ${createHash('sha256').update(emailKey).digest('hex').slice(0, 32)}`;
}
