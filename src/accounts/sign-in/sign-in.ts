/**
 * Signs in: from an email address and a password, or a one-time link, to the token of a session.
 *
 * sign-in-limits.ts limits guesses, and passwords.ts hashes them in turns. Known and unknown accounts get the same
 * response after the same work. A link is checked before the password is hashed. It is used up afterwards, in the
 * transaction that creates the member or sets the password.
 */
import { type LimitState, signInLimitRefusal } from '../../core/limits.ts';
import { isRefusal, type Refusal, refuseFields } from '../../core/refusals.ts';
import { addressKey, explainAddress, parseAddress } from '../../mail/address.ts';
import type { Database, Queryable } from '../../database/database.ts';
import {
  createMember,
  findMemberByEmail,
  findMemberById,
  findOrganization,
  hasOwner,
  lockMembers,
  type MemberWithPassword,
  setPassword,
} from '../members/member-store.ts';
import { createSession, endSessions } from '../sessions/session-store.ts';
import { createLink, findLink, useLink } from './link-store.ts';
import { findInvitation, useInvitation } from '../members/invitation-store.ts';
import type { AuthLimiter } from '../keys/auth-limiter.ts';
import type { Device, Devices } from './devices.ts';
import { ALREADY_MEMBER } from '../members/members.ts';
import { passwordProblem, type Passwords } from './passwords.ts';
import { hasIdentity } from '../oidc/identity-store.ts';
import type { SecondFactor } from './second-factor.ts';
import {
  memberWithDevice,
  signedInMember,
  type SignInLimits,
  strangerAt,
} from './sign-in-limits.ts';
import { makeToken, parseToken } from './tokens.ts';

const LINK_VALID_S = 30 * 60;

/** The same for an unknown account and a wrong password, so that the sentence reveals no accounts. */
const WRONG_CREDENTIALS: Refusal = {
  refused: 'authentication_error',
  message: 'The email address or the password is wrong.',
};
const LINK_EXPIRED: Refusal = {
  refused: 'authentication_error',
  message:
    'This link was used already, or its time is up; make a new one with the command `letterhaus owner`.',
};
const INVITATION_EXPIRED: Refusal = {
  refused: 'authentication_error',
  message: 'This invitation was used, revoked or has expired. Ask for a new one.',
};
const PASSWORD_ENDED: Refusal = {
  refused: 'authentication_error',
  message: 'You sign in with the identity provider; your password is off on this installation.',
};
const PASSWORD_MISSING: Refusal = refuseFields([{ field: 'password', message: 'is required' }]);
const NO_PASSWORD: Refusal = {
  refused: 'conflict',
  message:
    'Your account has no password. The command `letterhaus owner reset` makes a link that sets one.',
};
const NOT_RECENT: Refusal = {
  refused: 'authorization_error',
  message: 'You signed in more than 15 minutes ago. Sign out and in again, then repeat this.',
};
const ACCOUNT_GONE: Refusal = {
  refused: 'not_found',
  message: 'This account no longer exists.',
};
const ALREADY_OWNED: Refusal = {
  refused: 'conflict',
  message: 'This installation already has an owner. Sign in, or ask for an invitation.',
};

export type Origin = {
  /** From net/ip-addresses.ts clientOf. */
  client: string;
  /** From net/ip-addresses.ts networkOf. */
  network: string;
  userAgent: string | null;
  /** The cookie of an earlier sign-in (devices.ts). */
  device: string | null;
};

/** A refusal. `limit` is the state of the limit on attempts. */
export type SignInRefusal = Refusal & { limit?: LimitState };

/** `token` and `device` (devices.ts) are for the client only. */
export type SignedIn = { token: string; device: string; sessionId: string; memberId: string };

type SignInOptions = {
  db: Database;
  limiter: AuthLimiter;
  limits: SignInLimits;
  devices: Devices;
  passwords: Passwords;
  secondFactor: SecondFactor;
  /** Members with an account at the identity provider sign in there only (LETTERHAUS_OIDC_ONLY). */
  endsPasswords: boolean;
};

export class SignIn {
  readonly #db: Database;
  readonly #limiter: AuthLimiter;
  readonly #limits: SignInLimits;
  readonly #devices: Devices;
  readonly #passwords: Passwords;
  readonly #secondFactor: SecondFactor;
  readonly #endsPasswords: boolean;

  constructor(options: SignInOptions) {
    const { db, limiter, limits, devices, passwords, secondFactor, endsPasswords } = options;
    this.#endsPasswords = endsPasswords;
    this.#db = db;
    this.#limiter = limiter;
    this.#limits = limits;
    this.#devices = devices;
    this.#passwords = passwords;
    this.#secondFactor = secondFactor;
  }

  /**
   * Signs in with an address and a password.
   * @throws DatabaseUnavailable, Overloaded
   */
  async byPassword(
    { email, password, code }: { email: string; password: string; code?: string | undefined },
    origin: Origin,
  ): Promise<SignedIn | SignInRefusal> {
    const emailKey = addressKey(email.trim());
    const device = this.#devices.read(origin.device);
    const known = device && (await this.#findKnownMember(device, emailKey));
    const guesser =
      device && known ? memberWithDevice(known.id, device.deviceId) : strangerAt(origin, emailKey);
    this.#passwords.requireFreePlace(guesser.turnOwner);
    let member: MemberWithPassword | null = known;
    const guess = await this.#limits.guess(guesser, async () => {
      member ??= await findMemberByEmail(this.#db, emailKey);
      return this.#passwords.verify(password, storedOf(member), guesser.turnOwner);
    });
    if (isRefusal(guess)) return guess;
    if (!guess.isRight || member === null) return WRONG_CREDENTIALS;
    if (await this.needsProvider(member.id)) return PASSWORD_ENDED;
    const refusal = await this.#secondFactor.check(member.id, code);
    return refusal ?? this.#startSession(this.#db, member, origin);
  }

  /** Returns whether this member signs in with the identity provider only (LETTERHAUS_OIDC_ONLY). */
  async needsProvider(memberId: string): Promise<boolean> {
    return this.#endsPasswords && (await hasIdentity(this.#db, memberId));
  }

  /** Signs in a member whose identity the caller has verified, with the second factor. */
  startSession(
    member: { id: string; password: string },
    origin: Origin,
    { hasSecondFactor }: { hasSecondFactor: boolean },
  ): Promise<SignedIn> {
    return this.#startSession(this.#db, { ...member, hasSecondFactor }, origin);
  }

  /** Returns the member with this address, if this member signed in with this browser before. */
  async #findKnownMember(device: Device, emailKey: string): Promise<MemberWithPassword | null> {
    const member = await findMemberByEmail(this.#db, emailKey);
    return member !== null && this.#devices.isOf(device, member) ? member : null;
  }

  /**
   * Creates the first owner.
   * @throws DatabaseUnavailable, Overloaded
   */
  async asFirstOwner(
    { token, email, name, password }: NewOwner,
    origin: Origin,
  ): Promise<SignedIn | SignInRefusal> {
    const address = parseAddress(email.trim());
    if (address === null) {
      return refuseFields([{ field: 'email', message: explainAddress(email) }]);
    }
    const find = async (sha256: Buffer) =>
      (await findLink(this.#db, { sha256, purpose: 'owner' })) && { email };
    const checked = await this.#checkLinkAndHash(
      { token, password, find, expiredRefusal: LINK_EXPIRED },
      origin,
    );
    if (isRefusal(checked)) return checked;
    const { sha256 } = checked;
    return this.#db.transaction(async (tx) => {
      await lockMembers(tx);
      if ((await useLink(tx, { sha256, purpose: 'owner' })) === null) return LINK_EXPIRED;
      const organizationId = await findOrganization(tx);
      if (organizationId === null || (await hasOwner(tx))) return ALREADY_OWNED;
      const identity = { organizationId, email: address, emailKey: addressKey(address), name };
      const owner = await createMember(tx, { ...identity, role: 'owner', password: checked.hash });
      if (owner === null) return ALREADY_OWNED;
      return this.#startSession(tx, { id: owner.id, password: checked.hash }, origin);
    });
  }

  /**
   * Makes the invited person a member.
   * @throws DatabaseUnavailable, Overloaded
   */
  async byInvitation(
    { token, name, password }: { token: string; name: string; password: string },
    origin: Origin,
  ): Promise<SignedIn | SignInRefusal> {
    const find = (sha256: Buffer) => findInvitation(this.#db, sha256);
    const request = { token, password, find, expiredRefusal: INVITATION_EXPIRED };
    const checked = await this.#checkLinkAndHash(request, origin);
    if (isRefusal(checked)) return checked;
    return this.#db.transaction(async (tx) => {
      await lockMembers(tx);
      const invitation = await useInvitation(tx, checked.sha256);
      if (invitation === null) return INVITATION_EXPIRED;
      const { organizationId, email, role, projectRoles } = invitation;
      const identity = { organizationId, email, emailKey: addressKey(email), name };
      const rights = { role, projectRoles };
      const member = await createMember(tx, { ...identity, ...rights, password: checked.hash });
      if (member === null) return ALREADY_MEMBER;
      return this.#startSession(tx, { id: member.id, password: checked.hash }, origin);
    });
  }

  /** Sets the password of the link's member, and ends that member's sessions. */
  async byNewPassword(
    { token, password }: { token: string; password: string },
    origin: Origin,
  ): Promise<SignedIn | SignInRefusal> {
    const find = async (sha256: Buffer) => {
      const link = await findLink(this.#db, { sha256, purpose: 'password' });
      return link && findMemberById(this.#db, link.memberId ?? '');
    };
    const checked = await this.#checkLinkAndHash(
      { token, password, find, expiredRefusal: LINK_EXPIRED },
      origin,
    );
    if (isRefusal(checked)) return checked;
    const { sha256 } = checked;
    return this.#db.transaction(async (tx) => {
      const memberId = (await useLink(tx, { sha256, purpose: 'password' }))?.memberId ?? null;
      if (memberId === null) return LINK_EXPIRED;
      if (!(await setPassword(tx, memberId, checked.hash))) return ACCOUNT_GONE;
      await endSessions(tx, memberId, null);
      return this.#startSession(tx, { id: memberId, password: checked.hash }, origin);
    });
  }

  /** Changes the password of a signed-in member, and ends the member's other sessions. */
  async changePassword(
    { memberId, sessionId }: { memberId: string; sessionId: string },
    { currentPassword, password }: { currentPassword: string; password: string },
  ): Promise<{ device: string } | SignInRefusal> {
    const member = await findMemberById(this.#db, memberId);
    if (member === null) return ACCOUNT_GONE;
    if (!member.hasPassword) return NO_PASSWORD;
    const problem = passwordProblem(password, member.email);
    if (problem !== null) return refuseFields([problem]);
    const refusal = await this.#confirm(member, {
      password: currentPassword,
      field: 'current_password',
    });
    if (refusal !== null) return refusal;
    const hash = await this.#passwords.hash(password, { isKnown: true, owner: memberId });
    await this.#db.transaction(async (tx) => {
      await setPassword(tx, memberId, hash);
      await endSessions(tx, memberId, sessionId);
    });
    return { device: this.#devices.cookieFor({ id: memberId, password: hash }) };
  }

  /**
   * Returns null when the password is right. Protects actions that a stolen session must not take. A member without a
   * password must have signed in a few minutes ago instead.
   */
  async confirmPassword(
    memberId: string,
    { password, isNew }: { password: string | undefined; isNew: boolean },
  ): Promise<SignInRefusal | null> {
    const member = await findMemberById(this.#db, memberId);
    if (member === null) return ACCOUNT_GONE;
    if (!member.hasPassword) return isNew ? null : NOT_RECENT;
    if (password === undefined) return PASSWORD_MISSING;
    return this.#confirm(member, { password, field: 'password' });
  }

  async #confirm(
    member: Account,
    { password, field }: { password: string; field: string },
  ): Promise<SignInRefusal | null> {
    const guesser = signedInMember(member.id);
    const guess = await this.#limits.guess(guesser, () =>
      this.#passwords.verify(password, member.password, guesser.turnOwner),
    );
    if (isRefusal(guess)) return guess;
    if (guess.isRight) return null;
    return {
      refused: 'validation_error',
      message: 'Your current password is wrong.',
      details: [{ field, message: 'is wrong' }],
    };
  }

  /** Checks the link, and hashes the password only if the link is valid. The transaction that uses the link follows. */
  async #checkLinkAndHash(
    { token, password, find, expiredRefusal }: LinkRequest,
    { client }: Origin,
  ): Promise<CheckedLink | SignInRefusal> {
    const { allowed, limit } = await this.#limiter.count(client);
    if (!allowed) return signInLimitRefusal(limit);
    const sha256 = parseToken(token);
    const person = sha256 && (await find(sha256));
    if (sha256 === null || person === null) return expiredRefusal;
    await this.#limiter.uncount([client]);
    const problem = passwordProblem(password, person.email);
    if (problem !== null) return refuseFields([problem]);
    const turnOwner = { isKnown: true, owner: `link ${sha256.toString('hex')}` };
    return { sha256, hash: await this.#passwords.hash(password, turnOwner) };
  }

  async #startSession(
    db: Queryable,
    member: Account,
    { network, userAgent }: Origin,
  ): Promise<SignedIn> {
    const { text: token, sha256 } = makeToken();
    const { id: memberId } = member;
    const { hasSecondFactor = false } = member;
    const session = { memberId, sha256, network, userAgent, hasSecondFactor };
    const sessionId = await createSession(db, session);
    return { token, device: this.#devices.cookieFor(member), sessionId, memberId };
  }
}

/** `find` returns the member of the link, or null when the link is no longer valid. `expiredRefusal` is sent then. */
type LinkRequest = {
  token: string;
  password: string;
  find: (sha256: Buffer) => Promise<{ email: string } | null>;
  expiredRefusal: Refusal;
};

type NewOwner = { token: string; email: string; name: string; password: string };
type CheckedLink = { sha256: Buffer; hash: string };
/** `password` is the stored hash. */
type Account = { id: string; password: string; hasSecondFactor?: boolean };

function storedOf(member: MemberWithPassword | null): string | null {
  return member?.hasPassword === true ? member.password : null;
}

/** Returns the path of a link for the first owner; null when there is an owner already. */
export async function createOwnerLink(db: Database): Promise<string | null> {
  return db.transaction(async (tx) => {
    await lockMembers(tx);
    if (await hasOwner(tx)) return null;
    const { text, sha256 } = makeToken();
    await createLink(tx, { sha256, memberId: null, validForS: LINK_VALID_S });
    return `/sign-in#first=${text}`;
  });
}

export async function createPasswordLink(db: Queryable, memberId: string): Promise<string> {
  const { text, sha256 } = makeToken();
  await createLink(db, { sha256, memberId, validForS: LINK_VALID_S });
  return `/sign-in#reset=${text}`;
}
