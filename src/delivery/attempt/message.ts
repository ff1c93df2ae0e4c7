/**
 * The bytes on the wire: composed and signed once per email, the same for every recipient and every retry, unless
 * the DKIM keys that are published change in between. With hosted unsubscribe links or tracking each recipient has a
 * message of its own. Through a server without SMTPUTF8 a message goes in another form, where it has one (hasAsciiForm).
 *
 * Guarantee: a pure function of what was stored and the keys that sign (Date, `t=` and `x=` are stored times, the
 * boundary is derived from the id). `buildSent` finds the keys by the hash of the attempt, so
 * `GET /v1/emails/:id/content` returns exactly what was sent. Every message is signed. If DNS has only
 * one of the two keys, only that key signs.
 */
import { isAscii } from 'node:buffer';
import { createHash, createPrivateKey } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { World } from '../../lib/world.ts';
import { type Address, domainOf, type Mailbox, needsSmtpUtf8 } from '../../mail/address.ts';
import { partsAsWritten, type WrittenParts } from '../../mail/mime/raw-message.ts';
import { withAsciiHeader } from '../../mail/mime/ascii-header.ts';
import { composeMessage, FEEDBACK_ID, feedbackIdOf, type Message } from '../../mail/compose.ts';
import {
  type DkimKey,
  type SignatureTimes,
  signingAlgorithms,
  signMessage,
  signWritten,
} from '../../mail/dkim.ts';
import { textFromHtml } from '../../mail/html/text-from-html.ts';
import { trackMessage } from '../../mail/html/tracked-message.ts';
import { targetOf, TRACKING, TrackingTokens } from '../../mail/links/tracking-link.ts';
import { makeUnsubscribeAddress } from '../../mail/links/return-path.ts';
import { hostedOf, UNSUBSCRIBE, UnsubscribeTokens } from '../../mail/links/unsubscribe-link.ts';
import { DatabaseUnavailable, type Queryable } from '../../database/database.ts';
import { messageIdIn, type StoredMessage } from './message-store.ts';
import type { SecretBox } from '../../secrets/secret-store.ts';
import { loadSigningKeys, type SealedKeys } from '../../domains/domain-store.ts';

export type SignedMessage = {
  /** Header block and body, CRLF throughout, not dot-stuffed. */
  parts: readonly Buffer[];
  sizeBytes: number;
  /** Of the whole message, hex; kept with every attempt. */
  sha256: string;
  /** An address in its header needs SMTPUTF8 (RFC 6532). */
  smtpUtf8: boolean;
  /** It has octets above 127, which only submitted messages have. */
  is8Bit?: boolean;
};

/** Content that takes more than some milliseconds to compose. */
const LARGE_CHARS = 256 * 1024;

/** Only the size of a larger message is compared: hashing 30 KB again takes 21 µs, 5 KB 5 µs. */
const HASHED_AGAIN_BYTES_MAX = 16 * 1024;

/**
 * The bytes that are sent are the bytes that were signed and whose hash is recorded.
 * @throws otherwise: nothing of the message is sent, and the next attempt composes it again
 */
export function assertAsSigned({ parts, sizeBytes, sha256 }: SignedMessage): void {
  const isSame =
    sizeOf(parts) === sizeBytes &&
    (sizeBytes > HASHED_AGAIN_BYTES_MAX || sha256Of(parts) === sha256);
  if (!isSame) throw new Error('the bytes of a message changed after it was signed');
}

function sizeOf(parts: readonly Buffer[]): number {
  return parts.reduce((sum, part) => sum + part.length, 0);
}

function sha256Of(parts: readonly Buffer[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest('hex');
}

/** Whose copy of the message it is; `position` within the email. */
export type MessageRecipient = { address: Address; position: number };

/**
 * Whether the message can be sent to this recipient through a server without SMTPUTF8: only other recipients that
 * its header names need that, or texts that a client did not encode. The address of the author has no form in ASCII,
 * nor the one for replies.
 */
export function hasAsciiForm(message: StoredMessage, { address }: MessageRecipient): boolean {
  const { written, from, to, cc, replyTo } = message;
  if (needsSmtpUtf8(address)) return false;
  if (written !== null) return withAsciiHeader(written.raw) !== null;
  return namesUtf8(to, cc) && !namesUtf8([from], replyTo);
}

/** `asciiOnly`: for a server without SMTPUTF8. */
export type MessageForm = { asciiOnly: boolean };

export const USUAL_FORM: MessageForm = { asciiOnly: false };
export const ASCII_FORM: MessageForm = { asciiOnly: true };
const BOTH_FORMS: readonly MessageForm[] = [USUAL_FORM, ASCII_FORM];

/** What differs between recipients: what List-Unsubscribe names, and the links of a tracked email. */
type Copy = { url: string | null; mailto: string | null; html: string | null };

/** `promise` is null once the message is built. */
type Building = { promise: Promise<SignedMessage> | null };

type DomainKeys = {
  sealed: SealedKeys;
  rsa: DkimKey;
  ed25519: DkimKey;
};

type KnownKeys = { keys: Promise<DomainKeys>; loadedAtMs: number };

/**
 * After this time the keys of a domain are read again: a check may have found that a record is missing. Receivers can
 * do no better, because a check comes minutes after the change.
 */
const KEYS_KNOWN_FOR_MS = 10_000;

/** Domains whose parsed keys are kept, the last used ones: decoding a PEM costs more than an RSA signature. */
const KEYS_MAX = 5_000;

export class MessageBuilder {
  readonly #db: Queryable;
  readonly #secrets: SecretBox;
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #keys: LRUCache<string, KnownKeys>;
  /** One build per email while several of its recipients are under way. */
  readonly #building = new Map<string, Building>();

  /** @param options.keysMax fewer in tests */
  constructor(
    db: Queryable,
    secrets: SecretBox,
    options: { world: Pick<World, 'monotonicMs'>; keysMax?: number },
  ) {
    this.#world = options.world;
    this.#keys = new LRUCache({ max: options.keysMax ?? KEYS_MAX });
    this.#db = db;
    this.#secrets = secrets;
  }

  /**
   * The same for every recipient, unless each has links of its own.
   * @throws SecretUnopenable when the domain's keys cannot be used; nothing leaves unsigned
   */
  build(
    message: StoredMessage,
    recipient: MessageRecipient,
    form = USUAL_FORM,
  ): Promise<SignedMessage> {
    const { unsubscribeUrl, tracking } = message;
    const isOwn = hostedOf(unsubscribeUrl) !== null || tracking.base !== null;
    const copyId = isOwn ? `${message.id} ${recipient.position}` : message.id;
    const id = form.asciiOnly ? `${copyId} ascii` : copyId;
    const present = this.#building.get(id)?.promise;
    if (present) return present;
    const promise = this.#buildSigned(message, recipient, form);
    const building: Building = { promise };
    this.#building.set(id, building);
    const forget = (): void => {
      this.#building.delete(id);
      building.promise = null; // for the tables of the map (lib/live-set.ts)
    };
    promise.then(forget, forget);
    return promise;
  }

  /**
   * As it was sent: signed with those of the domain's keys that make the message of this hash. With the keys of now if
   * none do, or it was not sent yet.
   */
  async buildSent(
    message: StoredMessage,
    recipient: MessageRecipient,
    sha256: string | null,
  ): Promise<SignedMessage> {
    const now = await this.build(message, recipient);
    if (sha256 === null || now.sha256 === sha256) return now;
    const keys = await this.#keysOf(message);
    const before = this.#previousKeys(keys.sealed, message.domainId);
    const forms = hasAsciiForm(message, recipient) ? BOTH_FORMS : [USUAL_FORM];
    for (const { rsa, ed25519 } of before === null ? [keys] : [before, keys]) {
      for (const signWith of [[rsa], [rsa, ed25519], [ed25519]]) {
        const others = forms.map((form) => this.#buildNow(message, recipient, { signWith, form }));
        const sent = (await Promise.all(others)).find((other) => other.sha256 === sha256);
        if (sent !== undefined) return sent;
      }
    }
    return now;
  }

  /** Those that signed before the present ones (domains/dkim-key-store.ts). */
  #previousKeys(sealed: SealedKeys, domainId: string): Pick<DomainKeys, 'rsa' | 'ed25519'> | null {
    const { domain, previousRsaSelector: rsaSelector, previousRsaPrivateKey: rsa } = sealed;
    const { previousEd25519Selector: edSelector, previousEd25519PrivateKey: ed25519 } = sealed;
    if (rsaSelector === null || rsa === null || edSelector === null || ed25519 === null)
      return null;
    const open = (key: Buffer) => createPrivateKey(this.#secrets.open(key, domainId));
    return {
      rsa: { domain, selector: rsaSelector, algorithm: 'rsa-sha256', privateKey: open(rsa) },
      ed25519: {
        domain,
        selector: edSelector,
        algorithm: 'ed25519-sha256',
        privateKey: open(ed25519),
      },
    };
  }

  async #buildSigned(
    message: StoredMessage,
    recipient: MessageRecipient,
    form: MessageForm,
  ): Promise<SignedMessage> {
    const signWith = signingKeys(await this.#keysOf(message), message);
    return this.#buildNow(message, recipient, { signWith, form });
  }

  async #copyFor(message: StoredMessage, recipient: MessageRecipient): Promise<Copy> {
    const isTracked = message.tracking.base !== null;
    const html = isTracked ? await this.#trackedHtml(message, recipient) : message.html;
    const hosted = hostedOf(message.unsubscribeUrl);
    if (hosted === null) return { url: message.unsubscribeUrl, mailto: null, html };
    const { projectId, environment, id: emailId, from } = message;
    const { address, position } = recipient;
    const fromDomain = domainOf(from.address);
    const tokens = new UnsubscribeTokens(this.#secrets.deriveAll(UNSUBSCRIBE));
    const who = { projectId, environment, emailId, address, fromDomain };
    const mail = {
      emailId,
      position,
      domain: `send.${fromDomain}`,
      secret: this.#secrets.derive('return path'),
    };
    return {
      url: hosted.base + tokens.make(who),
      mailto: hosted.byMail ? makeUnsubscribeAddress(mail) : null,
      html,
    };
  }

  async #trackedHtml(message: StoredMessage, recipient: MessageRecipient): Promise<string | null> {
    const { html, unsubscribeUrl, headers } = message;
    if (html === null) return null;
    const isUntracked = unsubscribesAt(unsubscribeUrl, headers);
    return (await this.#trackerFor(message, { recipient, isUntracked }))(html);
  }

  /** A message that was written by an SMTP client; null: it is composed. */
  async #writtenFor(
    message: StoredMessage,
    recipient: MessageRecipient,
    { asciiOnly }: MessageForm,
  ): Promise<WrittenParts | null> {
    if (message.written === null) return null;
    const raw = (asciiOnly ? withAsciiHeader(message.written.raw) : null) ?? message.written.raw;
    if (message.tracking.base === null) return partsAsWritten(raw);
    const isUntracked = unsubscribesAt(
      null,
      partsAsWritten(raw).headers.map(({ name, value }) => [name, value]),
    );
    return partsAsWritten(
      trackMessage(raw, await this.#trackerFor(message, { recipient, isUntracked })),
    );
  }

  async #trackerFor(
    { tracking, projectId, environment, id: emailId }: StoredMessage,
    {
      recipient: { position },
      isUntracked,
    }: { recipient: MessageRecipient; isUntracked: (target: string) => boolean },
  ): Promise<(html: string) => string> {
    // Loaded with the first tracked email: the parser takes 17 ms of CPU time.
    const { trackHtml } = await import('../../mail/html/tracked-html.ts');
    const who = { projectId, environment, emailId, position };
    const tokens = new TrackingTokens(this.#secrets.deriveAll(TRACKING));
    return (html) => trackHtml(html, { tracking, who, tokens, isUntracked });
  }

  async #buildNow(
    message: StoredMessage,
    recipient: MessageRecipient,
    { signWith, form }: { signWith: DkimKey[]; form: MessageForm },
  ): Promise<SignedMessage> {
    const times = timesOf(message);
    const fromDomain = domainOf(message.from.address);
    const written = await this.#writtenFor(message, recipient, form);
    // Encoding 20 MB takes a quarter of a second: what waits is served before and after.
    if ((message.html?.length ?? 0) + (message.text?.length ?? 0) > LARGE_CHARS) await nextTurn();
    const parts =
      written === null
        ? await signMessage(
            composeMessage({
              ...toCompose(message, await this.#copyFor(message, recipient)),
              ...form,
              feedbackId: feedbackIdOf(
                { tags: message.tags, projectId: message.projectId, fromDomain },
                this.#secrets.derive(FEEDBACK_ID),
              ),
            }),
            signWith,
            times,
          )
        : await signWritten(written, { fromDomain, keys: signWith, times });
    const { from, to, cc, replyTo } = message;
    const smtpUtf8 = written
      ? !isAscii(written.headerBytes)
      : namesUtf8([from], replyTo) || (!form.asciiOnly && namesUtf8(to, cc));
    const is8Bit = written !== null && !isAscii(written.raw);
    return { parts, sizeBytes: sizeOf(parts), sha256: sha256Of(parts), smtpUtf8, is8Bit };
  }

  #keysOf({ projectId, domainId }: StoredMessage): Promise<DomainKeys> {
    const id = `${projectId} ${domainId}`;
    const nowMs = this.#world.monotonicMs();
    const known = this.#keys.get(id);
    if (known !== undefined && nowMs - known.loadedAtMs < KEYS_KNOWN_FOR_MS) return known.keys;
    const keys = this.#loadKeys({ projectId, domainId }, known?.keys);
    this.#keys.set(id, { keys, loadedAtMs: nowMs });
    keys.catch(() => this.#keys.delete(id));
    return keys;
  }

  /** While the database is away, those known before go on signing. */
  async #loadKeys(
    { projectId, domainId }: Pick<StoredMessage, 'projectId' | 'domainId'>,
    before?: Promise<DomainKeys>,
  ): Promise<DomainKeys> {
    const sealed = await loadSigningKeys(this.#db, projectId, domainId).catch((error: unknown) => {
      if (before !== undefined && error instanceof DatabaseUnavailable) return before;
      throw error;
    });
    if (!sealed) throw new Error('the sending domain of a stored email has no keys');
    if ('sealed' in sealed) return sealed;
    const known = await before?.catch(() => undefined);
    const open = (of: 'rsa' | 'ed25519', key: 'rsaPrivateKey' | 'ed25519PrivateKey') =>
      known?.sealed[key].equals(sealed[key])
        ? known[of].privateKey
        : createPrivateKey(this.#secrets.open(sealed[key], domainId));
    const { domain, rsaSelector, ed25519Selector } = sealed;
    return {
      sealed,
      rsa: {
        domain,
        selector: rsaSelector,
        algorithm: 'rsa-sha256',
        privateKey: open('rsa', 'rsaPrivateKey'),
      },
      ed25519: {
        domain,
        selector: ed25519Selector,
        algorithm: 'ed25519-sha256',
        privateKey: open('ed25519', 'ed25519PrivateKey'),
      },
    };
  }
}

function signingKeys(keys: DomainKeys, { dualSigned }: StoredMessage): DkimKey[] {
  const ofAlgorithm = { 'rsa-sha256': keys.rsa, 'ed25519-sha256': keys.ed25519 };
  return signingAlgorithms(keys.sealed, dualSigned).map((algorithm) => ofAlgorithm[algorithm]);
}

/**
 * How long a signature is valid after the email has expired: as long as the first server may try to pass
 * it on (RFC 5321 §4.5.4.1).
 */
const HOLDS_BEYOND_EXPIRY_S = 5 * 86_400;

function timesOf(message: StoredMessage): SignatureTimes {
  const secondsOf = (date: Date) => Math.floor(date.getTime() / 1000);
  return {
    signedAtS: secondsOf(dateOf(message)),
    expiresAtS: secondsOf(message.expiresAt) + HOLDS_BEYOND_EXPIRY_S,
  };
}

/** The scheduled time, if there is one: the Date of a message should not be days before its arrival. */
function dateOf({ createdAt, scheduledAt }: StoredMessage): Date {
  return scheduledAt === null || scheduledAt < createdAt ? createdAt : scheduledAt;
}

/** What we compose is ASCII but for its addresses. */
function namesUtf8(...lists: readonly (readonly Mailbox[])[]): boolean {
  return lists.some((mailboxes) => mailboxes.some(({ address }) => needsSmtpUtf8(address)));
}

/** Whether recipients unsubscribe by a link: hosted here, the sender's own, or in the sender's own header. */
function unsubscribesAt(
  url: string | null,
  headers: StoredMessage['headers'],
): (target: string) => boolean {
  const fields = headers.filter(([name]) => /^list-unsubscribe$/i.test(name));
  const written = fields.flatMap(([, value]) => value.match(/(?<=<)https?:[^<>]+(?=>)/gi) ?? []);
  const links = new Set([url ?? '', ...written].map(targetOf));
  const hosted = hostedOf(url)?.base;
  return (target) => links.has(target) || (hosted !== undefined && target.startsWith(hosted));
}

function toCompose(message: StoredMessage, { url, mailto, html }: Copy): Message {
  return {
    ...message,
    html,
    text: textOf(message),
    emailId: message.id,
    date: dateOf(message),
    messageId: messageIdIn(message),
    unsubscribeUrl: url,
    unsubscribeMailto: mailto,
  };
}

/** The text part: as given, derived from the html when not given, none when given as ''. */
function textOf(message: StoredMessage): string | null {
  if (message.text === '') return null;
  return message.text ?? (message.html === null ? null : textFromHtml(message.html));
}
