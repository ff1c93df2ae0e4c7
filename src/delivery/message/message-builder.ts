/**
 * Builds the bytes on the wire. A message is composed and signed once per email, and has the same bytes for every
 * recipient and retry unless its published DKIM keys change. With hosted unsubscribe links or tracking, each
 * recipient has a separate message. A server without SMTPUTF8 gets the message in an ASCII form, if it has one
 * (canBeAscii).
 *
 * Guarantee: a message is a pure function of its stored content and the signing keys. Date, `t=` and `x=` are stored
 * times, and the boundary is derived from the id. `buildSent` finds the keys by the hash of the attempt, so `GET
 * /v1/emails/:id/content` returns exactly the sent bytes. Every message is signed (signing-keys.ts).
 */
import { isAscii } from 'node:buffer';
import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { DAY_S } from '../../lib/units.ts';
import { type Address, domainOf, type Mailbox, needsSmtpUtf8 } from '../../mail/address.ts';
import { splitRawMessage, type RawMessageParts } from '../../mail/mime/raw-message.ts';
import { withAsciiHeader } from '../../mail/mime/ascii-header.ts';
import { composeMessage, FEEDBACK_ID, feedbackIdOf, type Message } from '../../mail/compose.ts';
import { type DkimKey, type SignatureTimes, signMessage, signRawMessage } from '../../mail/dkim.ts';
import { textFromHtml } from '../../mail/html/text-from-html.ts';
import { trackMessage } from '../../mail/html/tracked-message.ts';
import { targetOf, TRACKING, TrackingTokens } from '../../mail/links/tracking-link.ts';
import { makeUnsubscribeAddress, RETURN_PATH } from '../../mail/links/return-path.ts';
import {
  parseHostedLink,
  UNSUBSCRIBE,
  UnsubscribeTokens,
} from '../../mail/links/unsubscribe-link.ts';
import { messageIdIn, type StoredMessage } from './message-store.ts';
import type { SecretBox } from '../../secrets/secret-box.ts';
import type { SigningKeys } from './signing-keys.ts';

export type SignedMessage = {
  /** Header block and body, CRLF throughout, not dot-stuffed. */
  parts: readonly Buffer[];
  sizeBytes: number;
  /** Hash of the whole message, hex; stored with every attempt. */
  sha256: string;
  /** True when an address in the header needs SMTPUTF8 (RFC 6532). */
  smtpUtf8: boolean;
  is8Bit?: boolean;
};

/** Characters of content that take more than some milliseconds to compose. */
const LARGE_CHARS = 256 * 1024;

/** Seconds for which the first server may still pass the message on (RFC 5321 §4.5.4.1). */
const VALID_AFTER_EXPIRY_S = 5 * DAY_S;

/** Limit for comparing the hash, which takes 5 µs for 5 KB. Of larger messages only the size is compared. */
const REHASHED_BYTES_MAX = 16 * 1024;

export type MessageRecipient = { address: Address; position: number };

export type MessageForm = { asciiOnly: boolean };

export const DEFAULT_FORM: MessageForm = { asciiOnly: false };
export const ASCII_FORM: MessageForm = { asciiOnly: true };
const BOTH_FORMS: readonly MessageForm[] = [DEFAULT_FORM, ASCII_FORM];

/** The parts that differ between recipients: the List-Unsubscribe links, and the html of a tracked email. */
type RecipientParts = {
  unsubscribeUrl: string | null;
  unsubscribeMailto: string | null;
  html: string | null;
};

type RunningBuild = { promise: Promise<SignedMessage> | null };

export class MessageBuilder {
  readonly #keys: SigningKeys;
  readonly #secrets: SecretBox;
  /** One build per email, shared by recipients that are delivered at the same time. */
  readonly #runningBuilds = new Map<string, RunningBuild>();

  constructor(keys: SigningKeys, secrets: SecretBox) {
    this.#keys = keys;
    this.#secrets = secrets;
  }

  /**
   * Builds the message, the same for every recipient unless each has separate links.
   * @throws SecretUnopenable when the domain's keys cannot be opened; nothing is sent unsigned
   */
  build(
    message: StoredMessage,
    recipient: MessageRecipient,
    form = DEFAULT_FORM,
  ): Promise<SignedMessage> {
    const { unsubscribeUrl, tracking } = message;
    const isPerRecipient = parseHostedLink(unsubscribeUrl) !== null || tracking.base !== null;
    const copyId = isPerRecipient ? `${message.id} ${recipient.position}` : message.id;
    const id = form.asciiOnly ? `${copyId} ascii` : copyId;
    const shared = this.#runningBuilds.get(id)?.promise;
    if (shared) return shared;
    const promise = this.#buildWithCurrentKeys(message, recipient, form);
    const runningBuild: RunningBuild = { promise };
    this.#runningBuilds.set(id, runningBuild);
    const remove = (): void => {
      this.#runningBuilds.delete(id);
      runningBuild.promise = null; // old tables of a Map keep its entries alive (lib/live-set.ts)
    };
    promise.then(remove, remove);
    return promise;
  }

  /**
   * Builds the message as it was sent: signed with the domain's keys that produce this hash. Uses the current keys if
   * none do, or if it was not sent yet.
   */
  async buildSent(
    message: StoredMessage,
    recipient: MessageRecipient,
    sha256: string | null,
  ): Promise<SignedMessage> {
    const current = await this.build(message, recipient);
    if (sha256 === null || current.sha256 === sha256) return current;
    const forms = canBeAscii(message, recipient) ? BOTH_FORMS : [DEFAULT_FORM];
    for (const signWith of await this.#keys.possible(message)) {
      const candidates = forms.map((form) =>
        this.#buildWith(message, recipient, { signWith, form }),
      );
      const sent = (await Promise.all(candidates)).find((candidate) => candidate.sha256 === sha256);
      if (sent !== undefined) return sent;
    }
    return current;
  }

  async #buildWithCurrentKeys(
    message: StoredMessage,
    recipient: MessageRecipient,
    form: MessageForm,
  ): Promise<SignedMessage> {
    const signWith = await this.#keys.current(message);
    return this.#buildWith(message, recipient, { signWith, form });
  }

  async #partsFor(message: StoredMessage, recipient: MessageRecipient): Promise<RecipientParts> {
    const isTracked = message.tracking.base !== null;
    const html = isTracked ? await this.#trackedHtml(message, recipient) : message.html;
    const hosted = parseHostedLink(message.unsubscribeUrl);
    if (hosted === null) {
      return { unsubscribeUrl: message.unsubscribeUrl, unsubscribeMailto: null, html };
    }
    const { projectId, environment, id: emailId, from } = message;
    const { address, position } = recipient;
    const fromDomain = domainOf(from.address);
    const tokens = new UnsubscribeTokens(this.#secrets.deriveAll(UNSUBSCRIBE));
    const unsubscriber = { projectId, environment, emailId, address, fromDomain };
    const replyAddress = {
      emailId,
      position,
      domain: `send.${fromDomain}`,
      secret: this.#secrets.derive(RETURN_PATH),
    };
    return {
      unsubscribeUrl: hosted.base + tokens.make(unsubscriber),
      unsubscribeMailto: hosted.byMail ? makeUnsubscribeAddress(replyAddress) : null,
      html,
    };
  }

  async #trackedHtml(message: StoredMessage, recipient: MessageRecipient): Promise<string | null> {
    const { html, unsubscribeUrl, headers } = message;
    if (html === null) return null;
    const isUntracked = unsubscribeLinkMatcher(unsubscribeUrl, headers);
    return (await this.#trackerFor(message, { recipient, isUntracked }))(html);
  }

  /** Returns a message that an SMTP client submitted, or null when the message is composed. */
  async #submittedPartsFor(
    message: StoredMessage,
    recipient: MessageRecipient,
    { asciiOnly }: MessageForm,
  ): Promise<RawMessageParts | null> {
    if (message.submitted === null) return null;
    const raw =
      (asciiOnly ? withAsciiHeader(message.submitted.raw) : null) ?? message.submitted.raw;
    if (message.tracking.base === null) return splitRawMessage(raw);
    const isUntracked = unsubscribeLinkMatcher(
      null,
      splitRawMessage(raw).headers.map(({ name, value }) => [name, value]),
    );
    return splitRawMessage(
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
    // Loaded with the first tracked email, because loading the parser takes 17 ms of CPU time.
    const { trackHtml } = await import('../../mail/html/tracked-html.ts');
    const recipient = { projectId, environment, emailId, position };
    const tokens = new TrackingTokens(this.#secrets.deriveAll(TRACKING));
    return (html) => trackHtml(html, { tracking, recipient, tokens, isUntracked });
  }

  async #buildWith(
    message: StoredMessage,
    recipient: MessageRecipient,
    { signWith, form }: { signWith: DkimKey[]; form: MessageForm },
  ): Promise<SignedMessage> {
    const times = timesOf(message);
    const fromDomain = domainOf(message.from.address);
    const submittedParts = await this.#submittedPartsFor(message, recipient, form);
    // Encoding 20 MB takes a quarter of a second, so other work runs first.
    if ((message.html?.length ?? 0) + (message.text?.length ?? 0) > LARGE_CHARS) await nextTurn();
    const parts =
      submittedParts === null
        ? await signMessage(
            composeMessage({
              ...messageToCompose(message, await this.#partsFor(message, recipient)),
              ...form,
              feedbackId: feedbackIdOf(
                { tags: message.tags, projectId: message.projectId, fromDomain },
                this.#secrets.derive(FEEDBACK_ID),
              ),
            }),
            signWith,
            times,
          )
        : await signRawMessage(submittedParts, { fromDomain, keys: signWith, times });
    const { from, to, cc, replyTo } = message;
    const smtpUtf8 = submittedParts
      ? !isAscii(submittedParts.headerBytes)
      : hasUtf8Address([from], replyTo) || (!form.asciiOnly && hasUtf8Address(to, cc));
    const is8Bit = submittedParts !== null && !isAscii(submittedParts.raw);
    return { parts, sizeBytes: sizeOf(parts), sha256: sha256Of(parts), smtpUtf8, is8Bit };
  }
}

/**
 * Returns whether the message can be sent to this recipient through a server without SMTPUTF8. It can if only other
 * recipients in its header need SMTPUTF8, or unencoded texts of a client. Addresses in From and Reply-To have no
 * ASCII form.
 */
export function canBeAscii(message: StoredMessage, { address }: MessageRecipient): boolean {
  const { submitted, from, to, cc, replyTo } = message;
  if (needsSmtpUtf8(address)) return false;
  if (submitted !== null) return withAsciiHeader(submitted.raw) !== null;
  return hasUtf8Address(to, cc) && !hasUtf8Address([from], replyTo);
}

/**
 * Checks that the bytes to send are those that were signed and whose hash is recorded.
 * @throws if not: nothing is sent, and the next attempt composes the message again
 */
export function assertUnchanged({ parts, sizeBytes, sha256 }: SignedMessage): void {
  const isSame =
    sizeOf(parts) === sizeBytes && (sizeBytes > REHASHED_BYTES_MAX || sha256Of(parts) === sha256);
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

function timesOf(message: StoredMessage): SignatureTimes {
  const secondsOf = (date: Date) => Math.floor(date.getTime() / 1000);
  return {
    signedAtS: secondsOf(dateOf(message)),
    expiresAtS: secondsOf(message.expiresAt) + VALID_AFTER_EXPIRY_S,
  };
}

/** Returns the scheduled time if there is one, because the Date of a message should not be days before its arrival. */
function dateOf({ createdAt, scheduledAt }: StoredMessage): Date {
  return scheduledAt === null || scheduledAt < createdAt ? createdAt : scheduledAt;
}

/** Returns whether an address needs SMTPUTF8. Composed messages are ASCII except for addresses. */
function hasUtf8Address(...lists: readonly (readonly Mailbox[])[]): boolean {
  return lists.some((mailboxes) => mailboxes.some(({ address }) => needsSmtpUtf8(address)));
}

/** Returns a predicate for unsubscribe links: hosted here, the sender's own, or in the sender's own header. */
function unsubscribeLinkMatcher(
  url: string | null,
  headers: StoredMessage['headers'],
): (target: string) => boolean {
  const fields = headers.filter(([name]) => /^list-unsubscribe$/i.test(name));
  const customLinks = fields.flatMap(
    ([, value]) => value.match(/(?<=<)https?:[^<>]+(?=>)/gi) ?? [],
  );
  const links = new Set([url ?? '', ...customLinks].map(targetOf));
  const hosted = parseHostedLink(url)?.base;
  return (target) => links.has(target) || (hosted !== undefined && target.startsWith(hosted));
}

function messageToCompose(message: StoredMessage, parts: RecipientParts): Message {
  return {
    ...message,
    ...parts,
    text: textOf(message),
    emailId: message.id,
    date: dateOf(message),
    messageId: messageIdIn(message),
  };
}

/** Returns the text part: the given one, or one derived from the html. An empty string means none. */
function textOf(message: StoredMessage): string | null {
  if (message.text === '') return null;
  return message.text ?? (message.html === null ? null : textFromHtml(message.html));
}
