/**
 * The parameters by which a sender asks for delivery notices (RFC 3461, RFC 6533): RET and ENVID of MAIL, NOTIFY and
 * ORCPT of RCPT. Parses them at submission and writes them for the next server.
 *
 * Each parser returns the value, or a sentence with the problem. ENVID and ORCPT stay encoded (xtext). They must
 * decode to printable ASCII, so that a notice can contain them.
 */
import { isAscii } from 'node:buffer';
import type { Address } from './address.ts';

/** In the order of NOTIFY. */
const EVENTS = ['SUCCESS', 'FAILURE', 'DELAY'] as const;
export type NotifyEvent = (typeof EVENTS)[number];

/** Parameters of MAIL, or null when not given. */
export type MailDsn = { ret: 'FULL' | 'HDRS' | null; envid: string | null };
/** Parameters of RCPT. `notify`: null when not given, empty for NEVER. `orcpt`: `type;xtext`. */
export type RcptDsn = { notify: readonly NotifyEvent[] | null; orcpt: string | null };

export type DsnRequest = MailDsn & {
  kind: 'request';
  /** Receives the notices, or null for the null reverse-path or a text that is not an address. */
  sender: Address | null;
  recipients: Readonly<Record<Address, RcptDsn>>;
};

/** The notices that an email asks for, or the mark of a notice, which has the null reverse-path. */
export type Dsn = DsnRequest | { kind: 'notice' };

type Problem = { problem: string };

const ENVID_MAX = 100;
const ORCPT_MAX = 500;

/** RFC 3461 §4: printable ASCII; `+` and `=` are written as `+2B` and `+3D`. */
const XTEXT = /^(?:[!-*,-<>-~]|\+[0-9A-F]{2})*$/;
/** RFC 6533 §3: xtext that may contain UTF-8. */
const UTF8_XTEXT = /^(?:[!-*,-<>-~\u0080-\uffff]|\+[0-9A-F]{2})*$/;
const PRINTABLE = /^[ -~]+$/;
/** RFC 5322 §3.2.3, without the characters that a parameter cannot contain. */
const ATOM = /^[A-Za-z0-9!#$%&'*/?^_`{|}~-]+$/;

export function readRet(text: string): 'FULL' | 'HDRS' | Problem {
  const ret = text.toUpperCase();
  return ret === 'FULL' || ret === 'HDRS' ? ret : { problem: 'RET is FULL or HDRS' };
}

export function readEnvid(text: string): string | Problem {
  if (text.length > ENVID_MAX) return { problem: `ENVID has at most ${ENVID_MAX} characters` };
  if (XTEXT.test(text) && PRINTABLE.test(decodeXtext(text))) return text;
  return { problem: 'ENVID is printable ASCII as xtext (RFC 3461)' };
}

/** @returns the events; none for NEVER */
export function readNotify(text: string): readonly NotifyEvent[] | Problem {
  const words = text.toUpperCase().split(',');
  if (words.length === 1 && words[0] === 'NEVER') return [];
  const isKnown = words.every((word) => EVENTS.some((event) => event === word));
  if (isKnown) return EVENTS.filter((event) => words.includes(event));
  return { problem: 'NOTIFY is NEVER alone, or a list of SUCCESS, FAILURE and DELAY' };
}

export function readOrcpt(text: string, { smtpUtf8 }: { smtpUtf8: boolean }): string | Problem {
  if (text.length > ORCPT_MAX) return { problem: `ORCPT has at most ${ORCPT_MAX} characters` };
  const semicolon = text.indexOf(';');
  const [type, address] = [text.slice(0, Math.max(0, semicolon)), text.slice(semicolon + 1)];
  const isUtf8 = type.toLowerCase() === 'utf-8';
  const xtext = isUtf8 && smtpUtf8 ? UTF8_XTEXT : XTEXT;
  if (ATOM.test(type) && xtext.test(address)) {
    const ascii = address.replace(/[^\0-\x7f]/gu, escapeCharacter);
    if (PRINTABLE.test(decodeXtext(ascii))) return `${type};${ascii}`;
  }
  return { problem: 'ORCPT is a type, a semicolon and an address as xtext: rfc822;jo@example.com' };
}

function escapeCharacter(character: string): string {
  return `\\x{${character.codePointAt(0)!.toString(16).toUpperCase()}}`;
}

export function decodeXtext(text: string): string {
  return text.replaceAll(/\+([0-9A-F]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
}

/** Returns an address for `Final-Recipient`: ASCII, with its type. */
export function typedAddress(address: string): string {
  if (isAscii(Buffer.from(address))) return `rfc822;${address}`;
  // Escapes replace xtext, so the special characters of xtext are escaped, too.
  return `utf-8;${address.replace(/[^\0-\x7f]|[+=\\]/gu, escapeCharacter)}`;
}

export type DsnParameters = { mail: string; rcpt: string };

/**
 * Returns the parameters after the paths of MAIL and RCPT, for one recipient; undefined when nothing was asked for.
 * @param options.takesReports whether reports of other servers can arrive here
 */
export function dsnParametersFor(
  dsn: Dsn | undefined,
  address: Address,
  { takesReports }: { takesReports: boolean },
): DsnParameters | undefined {
  if (dsn?.kind !== 'request') return undefined;
  const { ret, envid, recipients } = dsn;
  const { notify: requested = null, orcpt = null } = recipients[address] ?? {};
  const notify = takesReports || requested?.length === 0 ? requested : null;
  return {
    mail: formatParameter('RET', ret) + formatParameter('ENVID', envid),
    rcpt:
      formatParameter('NOTIFY', notify && (notify.join(',') || 'NEVER')) +
      // Escapes made it longer than servers must accept. The mail matters more than ORCPT.
      formatParameter('ORCPT', orcpt !== null && orcpt.length > ORCPT_MAX ? null : orcpt),
  };
}

function formatParameter(name: string, value: string | null): string {
  return value === null ? '' : ` ${name}=${value}`;
}
