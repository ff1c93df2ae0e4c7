/**
 * Hashes and checks passwords. They are stored as argon2id (RFC 9106) with the parameters that OWASP recommends, in
 * the format of the reference implementation (`$argon2id$v=19$m=…,t=…,p=…$salt$hash`).
 *
 * One hash takes 19 MB and tens of milliseconds of a core, outside the event loop. A process runs at most one at a
 * time and queues few, so strangers cannot take memory and CPU from mail (sign-in-turns.ts).
 */
import { argon2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import type { FieldProblem } from '../../core/refusals.ts';
import { type TurnOwner, SignInTurns } from './sign-in-turns.ts';

const MEMORY_KIB = 19_456;
const PASSES = 2;
const SALT_BYTES = 16;
const HASH_BYTES = 32;

export const PASSWORD_CHARACTERS_MIN = 10;
/** Bounds the work that a hostile password causes. */
export const PASSWORD_CHARACTERS_MAX = 256;

type Parameters = { memory: number; passes: number; parallelism: number };

const STORED = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([\w+/]+)\$([\w+/]+)$/;

/** Compared with when the member does not exist, so that the response takes equally long. No password has this hash. */
const PLACEHOLDER_HASH = encode({
  parameters: { memory: MEMORY_KIB, passes: PASSES, parallelism: 1 },
  salt: Buffer.alloc(SALT_BYTES),
  hash: Buffer.alloc(HASH_BYTES),
});

const derive = promisify(argon2);

export class Passwords {
  readonly #turns = new SignInTurns();

  /**
   * Refuses before an attempt is counted, so that a flood does not reach the database.
   * @throws Overloaded
   */
  requireFreePlace(turnOwner: TurnOwner): void {
    this.#turns.requireFreePlace(turnOwner);
  }

  /**
   * Returns the hash to store.
   * @throws Overloaded when too many wait
   */
  async hash(password: string, turnOwner: TurnOwner): Promise<string> {
    const parameters = { memory: MEMORY_KIB, passes: PASSES, parallelism: 1 };
    const salt = randomBytes(SALT_BYTES);
    const hash = await this.#turns.take(turnOwner, () =>
      deriveHash(password, { parameters, salt }),
    );
    return encode({ parameters, salt, hash });
  }

  /**
   * Returns whether this is the stored password.
   * @param stored null when the member does not exist; the result is false, after the same work
   * @throws Overloaded when too many wait
   */
  async verify(password: string, stored: string | null, turnOwner: TurnOwner): Promise<boolean> {
    const { hash, ...hashing } = decode(stored ?? PLACEHOLDER_HASH);
    const check = async () => {
      const isSame = timingSafeEqual(await deriveHash(password, hashing), hash);
      return isSame && stored !== null;
    };
    return this.#turns.take(turnOwner, check, (isRight) => !isRight);
  }
}

/** Returns a hash that no password matches, for a member without a password. */
export function unusablePassword(): string {
  const parameters = { memory: MEMORY_KIB, passes: PASSES, parallelism: 1 };
  return encode({ parameters, salt: randomBytes(SALT_BYTES), hash: randomBytes(HASH_BYTES) });
}

function deriveHash(
  password: string,
  { parameters, salt }: { parameters: Parameters; salt: Buffer },
): Promise<Buffer> {
  const message = normalize(password);
  return derive('argon2id', { ...parameters, message, nonce: salt, tagLength: HASH_BYTES });
}

export function passwordProblem(password: string, email: string): FieldProblem | null {
  const fieldProblem = (message: string): FieldProblem => ({ field: 'password', message });
  const text = normalize(password);
  const length = [...text].length;
  if (length < PASSWORD_CHARACTERS_MIN) {
    return fieldProblem(`needs at least ${PASSWORD_CHARACTERS_MIN} characters`);
  }
  if (new Set(text).size < 4) return fieldProblem('repeats a few characters; choose another one');
  if (text.toLowerCase().includes(email.toLowerCase()))
    return fieldProblem('contains the email address');
  return null;
}

/** Returns one encoding of characters that keyboards encode in different ways (NIST SP 800-63B §3.1.1.2). */
function normalize(password: string): string {
  return password.normalize('NFKC');
}

type Hashed = { parameters: Parameters; salt: Buffer; hash: Buffer };

function encode({ parameters: { memory, passes, parallelism }, salt, hash }: Hashed): string {
  const text = (bytes: Buffer) => bytes.toString('base64').replace(/=+$/, '');
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${text(salt)}$${text(hash)}`;
}

function decode(stored: string): Hashed {
  const [, memory, passes, parallelism, salt = '', hash = ''] = STORED.exec(stored) ?? [];
  if (hash === '') throw new Error('a stored password has an unknown format');
  return {
    parameters: {
      memory: Number(memory),
      passes: Number(passes),
      parallelism: Number(parallelism),
    },
    salt: Buffer.from(salt, 'base64'),
    hash: Buffer.from(hash, 'base64'),
  };
}
