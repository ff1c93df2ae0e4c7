/**
 * Passkeys: keys in a device, a browser or a security key that sign in to this host only. The device asks for a PIN or
 * a fingerprint, so a passkey is two factors, and signs in without an address, a password and a code.
 *
 * Each challenge works once, within ten minutes, in the browser that asked for it. Failures count against the limit on
 * failed authentications.
 */
import { randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import { signInLimitRefusal } from '../../core/limits.ts';
import type { Refusal } from '../../core/refusals.ts';
import type { Database } from '../../database/database.ts';
import type { AuthLimiter } from '../keys/auth-limiter.ts';
import { findMemberById } from '../members/member-store.ts';
import { useChallenge } from '../progress/challenge-store.ts';
import { readFactors } from '../sessions/policy-store.ts';
import type { SealedText } from '../progress/sealed-text.ts';
import type { Origin, SignedIn, SignIn, SignInRefusal } from '../sign-in/sign-in.ts';
import {
  addPasskey,
  findPasskey,
  listCredentialIds,
  type Passkey,
  recordUse,
  removePasskey,
} from './passkey-store.ts';
import { ALGORITHMS, type Expected, verifyAssertion, verifyRegistration } from './webauthn.ts';

/** The challenge in a cookie: to sign in, or for a member to register. */
export type PasskeyProgress = { challenge: string; memberId: string | null };

export type NewCredential = {
  client_data: string;
  authenticator_data: string;
  public_key: string;
  algorithm: number;
};

export type UsedCredential = {
  credential_id: string;
  client_data: string;
  authenticator_data: string;
  signature: string;
};

const PASSKEYS_MAX = 20;
const CHALLENGE_BYTES = 32;

const NOT_BEGUN: Refusal = {
  refused: 'authentication_error',
  message:
    'The request began in another browser, more than ten minutes ago, or was used. Begin again.',
};
const NOT_VALID: Refusal = {
  refused: 'authentication_error',
  message:
    'This passkey is not known here, or its response is not valid. Begin again, or use your password.',
};
const NO_PLACE: Refusal = {
  refused: 'conflict',
  message: `You have this passkey already, or ${PASSKEYS_MAX} passkeys; remove one first.`,
};
const LAST_FACTOR: Refusal = {
  refused: 'conflict',
  message: 'This installation requires a second factor; set up another one before you remove this.',
};
const PROVIDER_ONLY =
  'You sign in with the identity provider; passkeys are off on this installation.';
const NOT_OFFERED: Refusal = { refused: 'conflict', message: PROVIDER_ONLY };
const NOT_TAKEN: Refusal = { refused: 'authentication_error', message: PROVIDER_ONLY };
const NO_PASSKEY: Refusal = { refused: 'not_found', message: 'You have no passkey with this id.' };
const NO_HOST: Refusal = {
  refused: 'conflict',
  message: 'Passkeys need a host name: set LETTERHAUS_PUBLIC_URL, and open the dashboard there.',
};

type PasskeysOptions = {
  db: Database;
  limiter: AuthLimiter;
  sealed: SealedText<PasskeyProgress>;
  signIn: SignIn;
  /** The URL of the dashboard. */
  siteUrl: string;
};

export class Passkeys {
  readonly #options: PasskeysOptions;

  constructor(options: PasskeysOptions) {
    this.#options = options;
  }

  get #site(): Pick<Expected, 'origin' | 'rpId'> {
    const { origin, hostname } = new URL(this.#options.siteUrl);
    return { origin, rpId: hostname };
  }

  /** Browsers have passkeys for host names only. */
  get areAvailable(): boolean {
    return isIP(this.#site.rpId.replace(/^\[(.*)\]$/, '$1')) === 0;
  }

  /** Returns what the browser needs to create a passkey. */
  async beginRegistration({
    memberId,
    email,
    name,
  }: {
    memberId: string;
    email: string;
    name: string;
  }) {
    const { db, signIn } = this.#options;
    if (!this.areAvailable) return NO_HOST;
    if (await signIn.needsProvider(memberId)) return NOT_OFFERED;
    const challenge = newChallenge();
    const known = await listCredentialIds(db, memberId);
    return {
      progress: this.#options.sealed.seal({ challenge, memberId }),
      options: {
        challenge,
        host: this.#site.rpId,
        user_id: Buffer.from(memberId.replaceAll('-', ''), 'hex').toString('base64url'),
        user_email: email,
        user_name: name,
        algorithms: [...ALGORITHMS],
        known_credential_ids: known.map((id) => id.toString('base64url')),
      },
    };
  }

  async register(
    { memberId, sessionId }: { memberId: string; sessionId: string },
    { name, ...credential }: NewCredential & { name: string },
    progress: string | null,
  ): Promise<Passkey | Refusal> {
    const begun = await this.#useProgress(progress);
    if (begun === null || begun.memberId !== memberId) return NOT_BEGUN;
    const publicKey = bytesOf(credential.public_key);
    const { algorithm } = credential;
    const verified = verifyRegistration(
      {
        clientData: bytesOf(credential.client_data),
        authenticatorData: bytesOf(credential.authenticator_data),
        publicKey,
        algorithm,
      },
      { ...this.#site, challenge: begun.challenge },
    );
    if (!verified.ok) return invalidCredential(verified.problem);
    const passkey = { memberId, publicKey, algorithm, name, ...verified.value };
    const stored = await addPasskey(this.#options.db, passkey, { sessionId, max: PASSKEYS_MAX });
    return stored ?? NO_PLACE;
  }

  /** Returns null when it is removed. */
  async remove(memberId: string, id: string): Promise<Refusal | null> {
    const { db } = this.#options;
    const { required, passkeys, totp } = await readFactors(db, memberId);
    if (required && !totp && passkeys === 1) return LAST_FACTOR;
    return (await removePasskey(db, memberId, id)) ? null : NO_PASSKEY;
  }

  beginSignIn(): { progress: string; options: { challenge: string; host: string } } | Refusal {
    if (!this.areAvailable) return NO_HOST;
    const challenge = newChallenge();
    const progress = this.#options.sealed.seal({ challenge, memberId: null });
    return { progress, options: { challenge, host: this.#site.rpId } };
  }

  /** @throws DatabaseUnavailable */
  async signIn(
    credential: UsedCredential,
    origin: Origin,
    progress: string | null,
  ): Promise<SignedIn | SignInRefusal> {
    const { limiter, db, signIn } = this.#options;
    const { allowed, limit } = await limiter.count(origin.client);
    if (!allowed) return signInLimitRefusal(limit);
    const begun = await this.#useProgress(progress);
    if (begun === null || begun.memberId !== null) return NOT_BEGUN;
    const memberId = await this.#verify(credential, begun.challenge);
    const member = memberId === null ? null : await findMemberById(db, memberId);
    if (member === null) return NOT_VALID;
    await limiter.uncount([origin.client]);
    if (await signIn.needsProvider(member.id)) return NOT_TAKEN;
    return signIn.startSession(member, origin, { hasSecondFactor: true });
  }

  async #verify(credential: UsedCredential, challenge: string): Promise<string | null> {
    const { db } = this.#options;
    const key = await findPasskey(db, bytesOf(credential.credential_id));
    if (key === null) return null;
    const verified = verifyAssertion(
      {
        clientData: bytesOf(credential.client_data),
        authenticatorData: bytesOf(credential.authenticator_data),
        signature: bytesOf(credential.signature),
      },
      { ...this.#site, ...key, challenge },
    );
    if (!verified.ok) return null;
    return (await recordUse(db, key.id, verified.value.signCount)) ? key.memberId : null;
  }

  /** Uses up the challenge. Returns null when it is not valid. */
  async #useProgress(progress: string | null): Promise<PasskeyProgress | null> {
    const begun = this.#options.sealed.open(progress);
    if (begun === null) return null;
    return (await useChallenge(this.#options.db, begun.challenge)) ? begun : null;
  }
}

function newChallenge(): string {
  return randomBytes(CHALLENGE_BYTES).toString('base64url');
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text, 'base64url');
}

function invalidCredential(problem: string): Refusal {
  const message = `The passkey cannot be used: ${problem}.`;
  return { refused: 'validation_error', message };
}
