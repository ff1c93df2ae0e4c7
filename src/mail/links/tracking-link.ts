/**
 * Links of tracked emails: `https://links.acme.com/t/<token>`. A token with a target redirects to it. A token
 * without one is the pixel of an open.
 *
 * The token contains the recipient and the target, so links work while the database is unavailable and after the
 * email was deleted. It is authenticated: nobody can make a link with another target, so the service redirects only to
 * links of tracked emails. It is deterministic: every attempt sends the same bytes.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { PUBLIC_URL_MAX_LENGTH } from './unsubscribe-link.ts';
import { UUID_BYTES, uuidBytes, uuidText } from './uuid.ts';

export type Tracking = {
  /** Null: as the domain's setting says. In a stored email it is never null. */
  opens: boolean | null;
  clicks: boolean | null;
  /** The URL before `/t/`, or null when the email is not tracked. */
  base: string | null;
};

export const NOT_TRACKED: Tracking = { opens: null, clicks: null, base: null };

/** Why an email or a domain cannot have tracking. It follows the name of the field. */
export const NO_TRACKING_URL =
  'needs LETTERHAUS_TRACKING_URL or LETTERHAUS_PUBLIC_URL, the https address at which recipients reach ' +
  `this service (${PUBLIC_URL_MAX_LENGTH} characters at most)`;

/** Limit on tracked html, in characters: rewriting blocks a process that also serves requests. */
export const TRACKED_HTML_MAX_LENGTH = 256 * 1024;

/** The stored form, which accept/store writes: `opens+clicks:https://links.acme.com`. */
const STORED = /^(opens)?\+?(clicks)?:(.*)$/;
/** The purpose of the secret that authenticates tokens. */
export const TRACKING = 'tracking links';
/** Limit on a tracked target: some programs cut long links, and servers refuse them. */
export const TARGET_MAX_LENGTH = 1_400;
const VERSION = 1;
const MAC_BYTES = 16;
const POSITION_AT = 2 + 2 * UUID_BYTES;
const TARGET_AT = POSITION_AT + 2;
const ENVIRONMENTS = ['live', 'test'] as const;
const ABSOLUTE = /^[\0- ]*https?:[\\/]{2}/i;
const PRINTABLE = /^[!-~]+$/;

export function parseTracking(stored: string | null): Tracking {
  const [, opens, clicks, base = null] = STORED.exec(stored ?? '') ?? [];
  return { opens: opens !== undefined, clicks: clicks !== undefined, base };
}

export function trackedEvents({ opens, clicks }: Tracking): { opens: boolean; clicks: boolean } {
  return { opens: opens === true, clicks: clicks === true };
}

export type TrackedRecipient = {
  /** Lower-case UUIDs. */
  projectId: string;
  environment: 'live' | 'test';
  emailId: string;
  /** The recipient's place in the email, from 0. */
  position: number;
};

/** A `target` of null is the pixel of an open. */
export type TrackedLink = TrackedRecipient & { target: string | null };

export class TrackingTokens {
  readonly #secrets: readonly [Buffer, ...Buffer[]];

  /** @param secrets 32 bytes each, used for nothing else; the first makes tokens, all can verify them */
  constructor(secrets: readonly Buffer[]) {
    const [first, ...others] = secrets;
    if (first === undefined) throw new Error('tracking links need a secret');
    this.#secrets = [first, ...others];
  }

  /**
   * Returns a token in base64url.
   * @throws for a target that `targetOf` did not return
   */
  make(recipient: TrackedRecipient, target: string | null): string {
    if (target !== null && targetOf(target) !== target) throw new Error('not a target of a link');
    const head = Buffer.alloc(TARGET_AT);
    head[0] = VERSION;
    head[1] = ENVIRONMENTS.indexOf(recipient.environment);
    uuidBytes(recipient.projectId).copy(head, 2);
    uuidBytes(recipient.emailId).copy(head, 2 + UUID_BYTES);
    head.writeUInt16BE(recipient.position, POSITION_AT);
    const content = Buffer.concat([head, Buffer.from(target ?? '', 'latin1')]);
    return Buffer.concat([macOf(content, this.#secrets[0]), content]).toString('base64url');
  }

  /** Returns null when none of the secrets made the token. */
  read(token: string): TrackedLink | null {
    const bytes = Buffer.from(token, 'base64url');
    // Each token has only one accepted form.
    if (bytes.length < MAC_BYTES + TARGET_AT || bytes.toString('base64url') !== token) return null;
    const content = bytes.subarray(MAC_BYTES);
    const mac = bytes.subarray(0, MAC_BYTES);
    const isOurs = this.#secrets.some((secret) => timingSafeEqual(macOf(content, secret), mac));
    return isOurs ? decode(content) : null;
  }
}

function macOf(content: Buffer, secret: Buffer): Buffer {
  return createHmac('sha256', secret).update(content).digest().subarray(0, MAC_BYTES);
}

function decode(content: Buffer): TrackedLink | null {
  const environment = ENVIRONMENTS[content[1] ?? -1];
  if (content[0] !== VERSION || environment === undefined) return null;
  const target = content.toString('latin1', TARGET_AT);
  // Checked again although it is signed: no single check may stand between a script and a redirect.
  if (target !== '' && targetOf(target) !== target) return null;
  return {
    projectId: uuidText(content.subarray(2, 2 + UUID_BYTES)),
    environment,
    emailId: uuidText(content.subarray(2 + UUID_BYTES, POSITION_AT)),
    position: content.readUInt16BE(POSITION_AT),
    target: target === '' ? null : target,
  };
}

/** Returns the absolute http(s) URL that a browser would open, in printable ASCII; null for other or long links. */
export function targetOf(href: string): string | null {
  if (href.length > TARGET_MAX_LENGTH || !ABSOLUTE.test(href)) return null;
  const url = URL.parse(href);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) return null;
  return url.href.length <= TARGET_MAX_LENGTH && PRINTABLE.test(url.href) ? url.href : null;
}
