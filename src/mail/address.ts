/**
 * Email addresses and domain names: parsed once at the edge, then trusted (RFC 5321 §4.1.2, RFC 6531).
 *
 * A strict, linear parser for exactly one mailbox: `a@b.c`, `Name <a@b.c>` or `a@b.c (Name)`. Other parsers accept
 * more: some read `a@b.com\r\nBcc: evil@x.com` as a group with a second member. So groups, other comments, source
 * routes, lists, encoded words and control characters are refused. Sent messages are written from the parsed parts,
 * never from the original text. address-fields.ts parses the fields of messages.
 *
 * Domains are lower-case A-labels, so each domain has one form. Unicode is mapped by UTS #46 (node:url, which also
 * normalises to NFC). Each label of the result is checked, because that mapping accepts `a..b` and invalid punycode,
 * reads `1.2.3` as an address, and permits mixed scripts that imitate another name.
 */
import { domainToASCII, domainToUnicode } from 'node:url';
import { takeOutComments } from './mime/comments.ts';
import { foldCase } from './case-fold.ts';

declare const brand: unique symbol;

/** `local@domain`: the local part in its least quoted form, the domain as parseDomain returns it. */
export type Address = string & { readonly [brand]: 'Address' };

/** `name`: the decoded display name, never empty; null when there is none. */
export type Mailbox = { name: string | null; address: Address };

type Problem = { problem: string };

/** RFC 5321 §4.5.3.1.1 */
const LOCAL_OCTETS_MAX = 64;
/** RFC 5321 §4.5.3.1.3: a path has 256 octets, two of them its angle brackets. */
const ADDRESS_OCTETS_MAX = 254;
export const NAME_LENGTH_MAX = 320;
/** Enough for the longest address, and the longest name with every character escaped. */
const MAILBOX_LENGTH_MAX = 1_000;
const SHOWN_LENGTH_MAX = 80;

/** C0, DEL, C1, and Unicode line ends. */
const CONTROL = /[\0-\x1f\x7f-\x9f\u2028\u2029]/;
/** An atom of a local part: atext (RFC 5322 §3.2.3) and all characters outside of ASCII. */
const ATOM = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\uffff-]+$/;
/** Quoted-string of RFC 5321. */
const QUOTED = /^"(?:[ !#-[\]-~\u0080-\uffff]|\\[ -~])*"$/;
const AFTER_QUOTED = /^"(?:[^"\\]|\\.)*"(.*)$/u;
/** Spaces and invisible characters outside of ASCII, mostly from copied text. */
const INVISIBLE = /\p{Cf}|(?! )\p{Z}/u;
/** Characters with a meaning in RFC 5322. A name with one must be quoted. */
const SPECIAL_IN_NAME = /[()<>:;@\\,"]/;
const SEVERAL_ADDRESSES = 'it is more than one; write several as an array of strings';
const NO_GROUPS = 'groups (name: a, b;) are not supported; name the addresses';
const NO_COMMENTS = 'comments in parentheses are not supported';
/** RFC 1035 §2.3.4, without the root. */
const DOMAIN_OCTETS_MAX = 253;
/** Letters, digits and inner hyphens, at most 63 (RFC 1123 §2.1). */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/** The last label must begin with a letter: some software reads `1.2` or `0x7f` as IPv4. */
const TOP_LABEL = /^[a-z]/;
const RESERVED = /(?:^|\.)(?:test|example|invalid|localhost|example\.(?:com|net|org))$/;
/** Scripts of Japanese, Chinese and Korean, each combined with Latin. */
const MIXTURES = [
  ['Latin', 'Han', 'Hiragana', 'Katakana'],
  ['Latin', 'Han', 'Bopomofo'],
  ['Latin', 'Han', 'Hangul'],
];

/** Parses exactly `a@b.c`. */
export function parseAddress(text: string): Address | null {
  const read = readAddress(text);
  return isProblem(read) ? null : read;
}

/** Parses `a@b.c`, `<a@b.c>`, `Name <a@b.c>`, `"Name, quoted" <a@b.c>` or `a@b.c (Name)`. */
export function parseMailbox(text: string): Mailbox | null {
  const read = readMailbox(text);
  return isProblem(read) ? null : read;
}

/**
 * Returns why parseMailbox returned null: a sentence without its period, which begins with the text. For example,
 * `"bob@" is not an email address: nothing follows the @`.
 */
export function explainAddress(text: string): string {
  const isCut = text.length > SHOWN_LENGTH_MAX;
  const quoted = JSON.stringify(isCut ? `${text.slice(0, SHOWN_LENGTH_MAX)}…` : text);
  const read = readMailbox(text);
  return `${quoted} is not an email address${isProblem(read) ? `: ${read.problem}` : ''}`;
}

function readMailbox(text: string): Mailbox | Problem {
  if (text.length > MAILBOX_LENGTH_MAX) return tooLong(text);
  if (CONTROL.test(text)) return problem('it has a line break or another control character');
  if (!text.isWellFormed()) return problem('it is not valid Unicode');
  const trimmed = text.trim();
  if (/^[^"<>]*[()][^"<>]*$/.test(trimmed)) return readMailboxWithComment(trimmed);
  if (!trimmed.endsWith('>')) return toMailbox('', trimmed);

  const bracketAt = trimmed.startsWith('"') ? endOfQuotes(trimmed) : trimmed.indexOf('<');
  if (trimmed[bracketAt] !== '<') return problem('write it like "Name" <name@example.com>');
  const name = readDisplayName(trimmed.slice(0, bracketAt).trim());
  return isProblem(name) ? name : toMailbox(name.text, trimmed.slice(bracketAt + 1, -1));
}

/** Parses `a@b.c (Name)`, the form of cron and other programs (RFC 5322 §3.2.2). */
function readMailboxWithComment(text: string): Mailbox | Problem {
  const uncommented = takeOutComments(text);
  if (uncommented === null) return problem('it has a parenthesis that is not closed or opened');
  const name = uncommented.comments.join(' ').trim();
  if (name.includes('@'))
    return problem('it has an @ in parentheses, which some parsers read as the address');
  return toMailbox(name, uncommented.text.trim());
}

function toMailbox(name: string, text: string): Mailbox | Problem {
  const address = readAddress(text);
  if (isProblem(address)) return address;
  if (name.length <= NAME_LENGTH_MAX) return { name: name || null, address };
  return problem(`its name has more than ${NAME_LENGTH_MAX} characters`);
}

function endOfQuotes(text: string): number {
  let at = 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  do at += 1;
  while (text[at] === ' ');
  return at;
}

function readDisplayName(text: string): { text: string } | Problem {
  if (text.startsWith('"')) return { text: text.slice(1, -1).replace(/\\(.)/gu, '$1').trim() };
  const special = SPECIAL_IN_NAME.exec(text)?.[0];
  if (special === undefined) return { text };
  if (isList(text)) return problem(SEVERAL_ADDRESSES);
  return problem(`a name with ${special} in it needs double quotes around it`);
}

function isList(text: string): boolean {
  const at = text.indexOf('@');
  return at !== -1 && !text.startsWith('"') && /[,;]/.test(text.slice(at));
}

function tooLong(text: string): Problem {
  return problem(isList(text) ? SEVERAL_ADDRESSES : 'it is too long');
}

function readAddress(text: string): Address | Problem {
  if (text === '') return problem('it is empty');
  if (text.length > ADDRESS_OCTETS_MAX) return tooLong(text);
  const at = text.lastIndexOf('@');
  if (at === -1) return problem('it has no @');
  const rawLocal = text.slice(0, at);
  const local = toLeastQuoted(rawLocal);
  const localFault = localProblem(rawLocal) ?? (local === rawLocal ? null : localProblem(local));
  if (localFault !== null) return problem(localFault);

  if (at === text.length - 1) return problem('nothing follows the @');
  const domain = parseDomain(text.slice(at + 1));
  if (domain === null) return problem(`${text.slice(at + 1)} is not a domain name`);
  const address = `${local}@${domain}`;
  if (Buffer.byteLength(address) > ADDRESS_OCTETS_MAX) return tooLong(text);
  return address as Address;
}

function localProblem(local: string): string | null {
  if (local === '') return 'nothing comes before the @';
  if (isList(local)) return SEVERAL_ADDRESSES;
  if (Buffer.byteLength(local) > LOCAL_OCTETS_MAX) {
    return `the part before the @ has more than ${LOCAL_OCTETS_MAX} octets`;
  }
  if (CONTROL.test(local) || INVISIBLE.test(local) || !local.isWellFormed()) {
    return 'it has an invisible character in it';
  }
  // RFC 2047 §5 (3) forbids encoded words in an address, but some parsers decode them.
  if (local.includes('=?')) return 'an address cannot have encoded words (=?) in it';
  if (QUOTED.test(local) || local.split('.').every((atom) => ATOM.test(atom))) return null;
  return explainLocal(local);
}

/** Returns the least quoted form (RFC 5321 §4.1.2): `"jo"` and `"j\\o"` become `jo`, so they compare as equal. */
function toLeastQuoted(local: string): string {
  if (!local.startsWith('"')) return local;
  const plain = local.slice(1, -1).replace(/\\(.)/gu, '$1');
  if (plain.split('.').every((atom) => ATOM.test(atom))) return plain;
  return `"${plain.replace(/["\\]/g, '\\$&')}"`;
}

function explainLocal(local: string): string {
  if (local.startsWith('"')) return explainQuoted(local);
  if (local.startsWith('@')) return 'routes (@a,@b:c@d) are not supported';
  if (local.includes(':')) return NO_GROUPS;
  if (local.includes('(')) return NO_COMMENTS;
  if (local.includes('<')) return 'text follows the closing >';
  if (/^\.|\.\.|\.$/.test(local)) return 'it has a leading, trailing or double dot before the @';
  return 'it has a character before the @ that needs double quotes or cannot be there';
}

/** @param local begins with a quotation mark and is not a quoted string */
function explainQuoted(local: string): string {
  const [, afterQuote = null] = AFTER_QUOTED.exec(local) ?? [];
  if (afterQuote === null) return 'it has an opening quotation mark without its closing one';
  if (afterQuote.trimStart().startsWith(':')) return NO_GROUPS;
  if (afterQuote.trimStart().startsWith('(')) return NO_COMMENTS;
  if (afterQuote !== '') return 'the @ must follow the closing quotation mark';
  return 'it has a character in its quotation marks that cannot be there';
}

function problem(text: string): Problem {
  return { problem: text };
}

function isProblem(read: string | object): read is Problem {
  return typeof read === 'object' && 'problem' in read;
}

export function domainOf(address: Address): string {
  return address.slice(address.lastIndexOf('@') + 1);
}

export function localPartOf(address: Address): string {
  return address.slice(0, address.lastIndexOf('@'));
}

/**
 * Returns the form in which addresses are compared everywhere: for suppressions, filters, reports and members. The
 * local part is least quoted, case-folded and in NFC (case-fold.ts); the domain is lower-case A-labels. Tags
 * (`jo+shop`) and dots distinguish addresses. Case does not: few mail systems distinguish `Jo@` from `jo@`, and many
 * people write their address both ways.
 *
 * SQL compares only this form. Lists store it in a column; mail stores it for addresses outside of ASCII
 * (database/address-keys.ts).
 * @param address any text: a parsed address, an unparsed one, or the beginning of one
 */
export function addressKey(address: string): string {
  if (isAscii(address) && !address.startsWith('"')) return address.toLowerCase();
  const at = address.lastIndexOf('@');
  if (at === -1) return foldCase(address);
  const domain = address.slice(at + 1);
  return `${foldCase(toLeastQuoted(address.slice(0, at)))}@${parseDomain(domain) ?? foldCase(domain)}`;
}

/** Returns whether the local part needs a server with SMTPUTF8 (RFC 6531). */
export function needsSmtpUtf8(address: Address): boolean {
  return /[\u0080-\uffff]/.test(address);
}

/** Returns `a@b.c` or `Name <a@b.c>`, as the API shows it. parseMailbox parses it to the same mailbox. */
export function formatMailbox({ name, address }: Mailbox): string {
  if (name === null) return address;
  const quoted = SPECIAL_IN_NAME.test(name) ? `"${name.replace(/["\\]/g, '\\$&')}"` : name;
  return `${quoted} <${address}>`;
}

/**
 * Returns the lower-case A-label form; null for a text that is not a fully qualified name. Refused are single
 * labels, IP addresses, a trailing dot, and labels that are empty, too long, invalid punycode, of mixed scripts, or
 * with other characters than letters, digits and inner hyphens.
 */
export function parseDomain(text: string): string | null {
  if (text.length > DOMAIN_OCTETS_MAX || hasForbiddenAscii(text)) return null;
  const domain = isAscii(text) ? text.toLowerCase() : domainToASCII(text);
  if (domain.length > DOMAIN_OCTETS_MAX) return null;
  const labels = domain.split('.');
  const isName = labels.length >= 2 && labels.every(isLabel) && TOP_LABEL.test(labels.at(-1)!);
  return isName ? domain : null;
}

/** Returns whether the text contains ASCII that the mapping could read as a port, path or escape. */
function hasForbiddenAscii(text: string): boolean {
  return /[^A-Za-z0-9.\-\u0080-\uffff]/.test(text);
}

function isAscii(text: string): boolean {
  return !/[\u0080-\uffff]/.test(text);
}

function isLabel(label: string): boolean {
  if (!LABEL.test(label)) return false;
  return !label.startsWith('xn--') || isUnambiguousIdn(label);
}

/** Returns whether an A-label encodes exactly one U-label that mixes no scripts. */
function isUnambiguousIdn(label: string): boolean {
  const unicode = domainToUnicode(label);
  return unicode !== label && domainToASCII(unicode) === label && isSingleScript(unicode);
}

/** Returns whether the domain can never be registered (RFC 2606, RFC 6761). Takes the result of parseDomain. */
export function isReservedDomain(domain: string): boolean {
  return RESERVED.test(domain);
}

/**
 * Against homographs: `аpple.com` with a Cyrillic а looks like another domain. A label may use one script, or a
 * combination that languages use (UTS #39 §5.2, "highly restrictive"). Digits, hyphens and combining marks belong to
 * every script. A label in one script that looks Latin is accepted, because the registry of its top-level domain is
 * responsible for it.
 *
 * The scripts recommended for identifiers (UAX #31, table 5).
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

let scriptPatterns: readonly RegExp[] | null = null;

/** Compiled at the first non-ASCII label: at import, this would delay the start of each process by 10 ms. */
function compileScriptPatterns(): readonly RegExp[] {
  scriptPatterns ??= [...SCRIPTS.map((script) => [script]), ...MIXTURES].map((scripts) => {
    const classes = [...scripts, 'Common', 'Inherited'].map((script) => `\\p{scx=${script}}`);
    return new RegExp(`^[${classes.join('')}]*$`, 'u');
  });
  return scriptPatterns;
}

function isSingleScript(label: string): boolean {
  return compileScriptPatterns().some((pattern) => pattern.test(label));
}
