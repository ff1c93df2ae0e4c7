/**
 * Email addresses and domain names: parsed once at the edge, then trusted (RFC 5321 §4.1.2, RFC 6531).
 *
 * One strict parser, linear in its input: exactly one mailbox, `a@b.c` or `Name <a@b.c>`. Other
 * parsers accept more: to some `a@b.com\r\nBcc: evil@x.com` is a group with another member. So there
 * are no groups, comments, source routes, lists or encoded words here and no control characters, and
 * what is sent is written from the parsed parts, never from the text that came in.
 *
 * Domains are A-labels in lower case, so that one domain has one spelling. Unicode is mapped by UTS #46
 * (node:url, which also brings it to NFC). The result is checked here, label by label: that mapping lets
 * `a..b` and broken punycode pass, reads `1.2.3` as an address, and accepts labels that mix scripts to look
 * like another name.
 */
import { domainToASCII, domainToUnicode } from 'node:url';

declare const brand: unique symbol;

/** `local@domain` without quotes of its own: local part as written, domain as parseDomain gives it. */
export type Address = string & { readonly [brand]: 'Address' };

/** `name`: the display name as people read it, never empty; null when there is none. */
export type Mailbox = { name: string | null; address: Address };

type Problem = { problem: string };

/** RFC 5321 §4.5.3.1.1 */
const LOCAL_OCTETS_MAX = 64;
/** RFC 5321 §4.5.3.1.3: a path has 256 octets, two of them its angle brackets. */
const ADDRESS_OCTETS_MAX = 254;
const NAME_LENGTH_MAX = 320;
/** More than the longest name, each character escaped, and the longest address take. */
const MAILBOX_LENGTH_MAX = 1_000;
const SHOWN_LENGTH_MAX = 80;

/** C0, DEL, C1, and the line ends of Unicode. */
const CONTROL = /[\0-\x1f\x7f-\x9f\u2028\u2029]/;
/** Between the dots of a local part: atext (RFC 5322 §3.2.3) and everything outside of ASCII. */
const ATOM = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\uffff-]+$/;
/**
 * RFC 5321's Quoted-string, but for `<` and `>`: an address that can end its own brackets is not
 * worth the risk.
 */
const QUOTED = /^"(?:[ !#-;=?-[\]-~\u0080-\uffff]|\\[ -;=?-~])*"$/;
/** Outside of ASCII: spaces and invisible characters, the usual leftovers of copying. */
const INVISIBLE = /\p{Cf}|(?! )\p{Z}/u;
/** What has a meaning in RFC 5322 and therefore makes an unquoted name something else. */
const SPECIAL_IN_NAME = /[()<>:;@\\,"]/;

/** Reads `a@b.c`, nothing around it. */
export function parseAddress(text: string): Address | null {
  const read = readAddress(text);
  return isProblem(read) ? null : read;
}

/** Reads `a@b.c`, `<a@b.c>`, `Name <a@b.c>` or `"Name, quoted" <a@b.c>`. */
export function parseMailbox(text: string): Mailbox | null {
  const read = readMailbox(text);
  return isProblem(read) ? null : read;
}

/**
 * Why parseMailbox gave null, as a sentence without its full stop that begins with the text itself:
 * `"bob@" is not an email address: nothing follows the @`.
 */
export function explainAddress(text: string): string {
  const isCut = text.length > SHOWN_LENGTH_MAX;
  const shown = JSON.stringify(isCut ? `${text.slice(0, SHOWN_LENGTH_MAX)}…` : text);
  const read = readMailbox(text);
  return `${shown} is not an email address${isProblem(read) ? `: ${read.problem}` : ''}`;
}

function readMailbox(text: string): Mailbox | Problem {
  if (text.length > MAILBOX_LENGTH_MAX) return tooLong(text);
  if (CONTROL.test(text)) return problem('it has a line break or another control character');
  if (!text.isWellFormed()) return problem('it is not valid Unicode');
  const trimmed = text.trim();
  if (!trimmed.endsWith('>')) return mailboxOf('', trimmed);

  const open = trimmed.startsWith('"') ? afterQuotes(trimmed) : trimmed.indexOf('<');
  if (trimmed[open] !== '<') return problem('write it like "Name" <name@example.com>');
  const name = readName(trimmed.slice(0, open).trim());
  return isProblem(name) ? name : mailboxOf(name.text, trimmed.slice(open + 1, -1));
}

function mailboxOf(name: string, text: string): Mailbox | Problem {
  const address = readAddress(text);
  if (isProblem(address)) return address;
  if (name.length <= NAME_LENGTH_MAX) return { name: name || null, address };
  return problem(`its name has more than ${NAME_LENGTH_MAX} characters`);
}

/** Where the text goes on after the quoted string it begins with, and the spaces behind that. */
function afterQuotes(text: string): number {
  let at = 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  do at += 1;
  while (text[at] === ' ');
  return at;
}

function readName(text: string): { text: string } | Problem {
  if (text.startsWith('"')) return { text: text.slice(1, -1).replace(/\\(.)/gu, '$1').trim() };
  const special = SPECIAL_IN_NAME.exec(text)?.[0];
  if (special === undefined) return { text };
  if (isList(text)) return problem(SEVERAL);
  return problem(`a name with ${special} in it needs double quotes around it`);
}

const SEVERAL = 'it is more than one; write several as an array of strings';

/** Whether an address seems to have ended and another to follow. */
function isList(text: string): boolean {
  const at = text.indexOf('@');
  return at !== -1 && !text.startsWith('"') && /[,;]/.test(text.slice(at));
}

function tooLong(text: string): Problem {
  return problem(isList(text) ? SEVERAL : 'it is too long');
}

function readAddress(text: string): Address | Problem {
  if (text === '') return problem('it is empty');
  if (text.length > ADDRESS_OCTETS_MAX) return tooLong(text);
  const at = text.lastIndexOf('@');
  if (at === -1) return problem('it has no @');
  const given = text.slice(0, at);
  const local = leastQuoted(given);
  const wrong = localProblem(given) ?? localProblem(local);
  if (wrong !== null) return problem(wrong);

  if (at === text.length - 1) return problem('nothing follows the @');
  const domain = parseDomain(text.slice(at + 1));
  if (domain === null) return problem(`${text.slice(at + 1)} is not a domain name`);
  const address = `${local}@${domain}`;
  if (Buffer.byteLength(address) > ADDRESS_OCTETS_MAX) return tooLong(text);
  return address as Address;
}

function localProblem(local: string): string | null {
  if (local === '') return 'nothing comes before the @';
  if (isList(local)) return SEVERAL;
  if (Buffer.byteLength(local) > LOCAL_OCTETS_MAX) {
    return `the part before the @ has more than ${LOCAL_OCTETS_MAX} octets`;
  }
  if (CONTROL.test(local) || INVISIBLE.test(local) || !local.isWellFormed()) {
    return 'it has an invisible character in it';
  }
  // RFC 2047 §5 (3): an encoded word in an address is nothing, but some parsers decode it.
  if (local.includes('=?')) return 'an address cannot have encoded words (=?) in it';
  if (QUOTED.test(local) || local.split('.').every((atom) => ATOM.test(atom))) return null;
  return explainLocal(local);
}

/**
 * `"jo"` and `"j\\o"` are `jo` (RFC 5321 §4.1.2): one form for all, so that they are compared as
 * one address, and the least quoted one, as the RFC wants it on the wire.
 */
function leastQuoted(local: string): string {
  if (!local.startsWith('"')) return local;
  const plain = local.slice(1, -1).replace(/\\(.)/gu, '$1');
  if (plain.split('.').every((atom) => ATOM.test(atom))) return plain;
  return `"${plain.replace(/["\\]/g, '\\$&')}"`;
}

function explainLocal(local: string): string {
  if (local.startsWith('@')) return 'routes (@a,@b:c@d) are not supported';
  if (local.includes(':')) return 'groups (name: a, b;) are not supported; name the addresses';
  if (local.includes('(')) return 'comments in parentheses are not supported';
  if (local.includes('<')) return 'text follows the closing >';
  if (/^\.|\.\.|\.$/.test(local)) return 'it has a dot too many before the @';
  return 'it has a character before the @ that needs double quotes or cannot be there';
}

function problem(text: string): Problem {
  return { problem: text };
}

function isProblem(read: string | object): read is Problem {
  return typeof read === 'object' && 'problem' in read;
}

/** The A-label domain. */
export function domainOf(address: Address): string {
  return address.slice(address.lastIndexOf('@') + 1);
}

export function localPartOf(address: Address): string {
  return address.slice(0, address.lastIndexOf('@'));
}

/**
 * The form in which addresses are compared for suppression: ASCII letters in lower case, as SQL does
 * it with `lower(… collate "C")` whatever the database's locale. Mail systems that tell `Jo@` from
 * `jo@` are rarer than people who write their address both ways.
 */
export function addressKey(address: string): string {
  return address.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Whether the address goes only to servers with SMTPUTF8 (RFC 6531): its local part has to. */
export function needsSmtpUtf8(address: Address): boolean {
  return /[\u0080-\uffff]/.test(address);
}

/** `a@b.c` or `Name <a@b.c>`, as the API shows it; parseMailbox reads the same from it again. */
export function formatMailbox({ name, address }: Mailbox): string {
  if (name === null) return address;
  const shown = SPECIAL_IN_NAME.test(name) ? `"${name.replace(/["\\]/g, '\\$&')}"` : name;
  return `${shown} <${address}>`;
}

/** RFC 1035 §2.3.4, without the root. */
const DOMAIN_OCTETS_MAX = 253;

/** Letters, digits, inner hyphens, at most 63 (RFC 1123 §2.1). */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/** With a digit first in the last label, some software reads an IPv4 address: `1.2`, `0x7f`. */
const TOP_LABEL = /^[a-z]/;

/**
 * The A-label form in lower case. Null for everything that is not a fully qualified name: one label
 * alone, an IP address, a final dot, labels that are empty, too long or hold something else than
 * letters, digits and inner hyphens, punycode that means nothing, scripts mixed in one label.
 */
export function parseDomain(text: string): string | null {
  if (text.length > DOMAIN_OCTETS_MAX || hasForeignAscii(text)) return null;
  const domain = isAscii(text) ? text.toLowerCase() : domainToASCII(text);
  if (domain.length > DOMAIN_OCTETS_MAX) return null;
  const labels = domain.split('.');
  const isName = labels.length >= 2 && labels.every(isLabel) && TOP_LABEL.test(labels.at(-1)!);
  return isName ? domain : null;
}

/** ASCII that no host name has. The mapping would take some of it for a port, a path, an escape. */
function hasForeignAscii(text: string): boolean {
  return /[^A-Za-z0-9.\-\u0080-\uffff]/.test(text);
}

function isAscii(text: string): boolean {
  return !/[\u0080-\uffff]/.test(text);
}

function isLabel(label: string): boolean {
  if (!LABEL.test(label)) return false;
  return !label.startsWith('xn--') || isHonestIdn(label);
}

/** An A-label stands for the one U-label that is encoded as it, and that one mixes no scripts. */
function isHonestIdn(label: string): boolean {
  const unicode = domainToUnicode(label);
  return unicode !== label && domainToASCII(unicode) === label && isSingleScript(unicode);
}

const RESERVED = /(?:^|\.)(?:test|example|invalid|localhost|example\.(?:com|net|org))$/;

/**
 * Whether the domain is reserved and can never be registered (RFC 2606, RFC 6761).
 * @param domain as parseDomain gives it
 */
export function isReservedDomain(domain: string): boolean {
  return RESERVED.test(domain);
}

/**
 * Homographs: `аpple.com` with a Cyrillic а reads like another domain. A label may be written in one
 * script, or in one of the mixtures that languages use (UTS #39 §5.2, "highly restrictive"). Digits,
 * hyphens and combining marks belong to every script. A label wholly in another script that looks Latin
 * passes: that is for the registry of its top-level domain.
 *
 * These are the scripts recommended for identifiers (UAX #31, table 5).
 */
const SCRIPTS = [
  'Latin',
  'Cyrillic',
  'Greek',
  'Arabic',
  'Armenian',
  'Bengali',
  'Devanagari',
  'Ethiopic',
  'Georgian',
  'Gujarati',
  'Gurmukhi',
  'Hebrew',
  'Kannada',
  'Khmer',
  'Lao',
  'Malayalam',
  'Myanmar',
  'Oriya',
  'Sinhala',
  'Tamil',
  'Telugu',
  'Thaana',
  'Thai',
  'Tibetan',
];

/** How Japanese, Chinese and Korean are written, with Latin between. */
const MIXTURES = [
  ['Latin', 'Han', 'Hiragana', 'Katakana'],
  ['Latin', 'Han', 'Bopomofo'],
  ['Latin', 'Han', 'Hangul'],
];

let allowed: readonly RegExp[] | null = null;

/** Compiled for the first label that is not ASCII: at import it would be 10 ms of each process's start. */
function allowedScripts(): readonly RegExp[] {
  allowed ??= [...SCRIPTS.map((script) => [script]), ...MIXTURES].map((scripts) => {
    const classes = [...scripts, 'Common', 'Inherited'].map((script) => `\\p{scx=${script}}`);
    return new RegExp(`^[${classes.join('')}]*$`, 'u');
  });
  return allowed;
}

/** @param label one label of a domain name, in Unicode */
function isSingleScript(label: string): boolean {
  return allowedScripts().some((pattern) => pattern.test(label));
}
