/**
 * How often passwords may be guessed. An attempt is counted before the password is hashed, and taken back when it
 * was right or was not tried. With the limit of failed authentications (LETTERHAUS_LIMIT_AUTH, 20 in a minute):
 *
 *     who                                    counted by
 *     a stranger                             client, account and network, account
 *     a browser of an earlier sign-in        the browser (accounts/sign-in/devices.ts)
 *     a member who is signed in              the member
 *
 * A stranger is refused after 20 failures of the client, or of the account from the network: guessing from one
 * network does not lock an account for its owner elsewhere. After 100 failures of an account in an hour from
 * everywhere, a network may try it 4 times a minute instead of 20. That brakes a guesser with many networks, and
 * still lets the owner in from a new place.
 */
import { createHash } from 'node:crypto';
import { type Limit, type LimitState, signInLimitRefusal } from '../../core/limits.ts';
import { Overloaded, type Refusal } from '../../core/refusals.ts';
import type { World } from '../../lib/world.ts';
import type { Queryable } from '../../database/database.ts';
import { AuthLimiter } from '../keys/auth-limiter.ts';
import type { Asker } from './turns.ts';

const DAY_S = 86_400;
/** The brake: this many times the limit, in this many windows, and then this part of the limit. */
const BRAKE = { failures: 5, windows: 60, part: 1 / 5 } as const;

/** Who guesses. `asker`: whose turn it uses for hashing (turns.ts). */
export type Guesser = { asker: Asker } & (
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
  const asker = { isKnown: false, owner: network };
  return { kind: 'stranger', asker, client, account: accountOf(emailKey) };
}

export function memberWithDevice(memberId: string, deviceId: string): Guesser {
  return { kind: 'device', asker: { isKnown: true, owner: memberId }, deviceId };
}

export function signedInMember(memberId: string): Guesser {
  return { kind: 'member', asker: { isKnown: true, owner: memberId } };
}

export class SignInLimits {
  readonly #limiter: AuthLimiter;
  readonly #everywhere: AuthLimiter;
  readonly #brakedMax: number;

  constructor(db: Queryable, world: Pick<World, 'monotonicMs'>, limit: Limit) {
    const { max, windowS } = limit;
    this.#limiter = new AuthLimiter(db, world, limit);
    this.#everywhere = new AuthLimiter(db, world, {
      max: max * BRAKE.failures,
      windowS: Math.min(DAY_S, windowS * BRAKE.windows),
    });
    this.#brakedMax = Math.max(1, Math.floor(max * BRAKE.part));
  }

  /**
   * Counts a guess unless it is right.
   * @param isRight hashes the password
   * @throws Overloaded when it was not tried, which counts as nothing
   */
  async guess(guesser: Guesser, isRight: () => Promise<boolean>): Promise<Guess | LimitRefusal> {
    const refusal = await this.#count(guesser);
    if (refusal !== null) return refusal;
    try {
      const guess = { isRight: await isRight() };
      if (guess.isRight) await this.#giveBack(guesser);
      return guess;
    } catch (error) {
      if (error instanceof Overloaded) await this.#giveBack(guesser);
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
    const isBraked = !allowed && last.limit - last.remaining > this.#brakedMax;
    return isBraked ? signInLimitRefusal({ ...last, remaining: 0 }) : null;
  }

  async #giveBack(guesser: Guesser): Promise<void> {
    await this.#limiter.giveBack(keysOf(guesser));
    if (guesser.kind === 'stranger') await this.#everywhere.giveBack([guesser.account]);
  }
}

/** Of a stranger, the last is that of account and network. */
function keysOf(guesser: Guesser): string[] {
  const { owner } = guesser.asker;
  switch (guesser.kind) {
    case 'stranger':
      return [guesser.client, `${guesser.account} ${owner}`];
    case 'device':
      return [`device ${guesser.deviceId}`];
    case 'member':
      return [`member ${owner}`];
  }
}

/** Among the counts per client; addresses of accounts are not stored there. */
function accountOf(emailKey: string): string {
  return `account ${createHash('sha256').update(emailKey).digest('hex').slice(0, 32)}`;
}
