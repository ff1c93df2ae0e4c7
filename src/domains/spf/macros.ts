/** The macros of SPF records (RFC 7208 §7), such as `%{ir}.%{v}._spf.%{d2}`. */
import { isIPv6 } from 'node:net';
import { reverseName } from '../../net/dns/resolver.ts';

type MacroContext = {
  ip: string;
  helo: string;
  domain: string;
  sender: string;
};

/** The local part differs in each message. A record that depends on it cannot be checked beforehand. */
const LOCAL_PART = 'postmaster';
const NAME_LENGTH_MAX = 253;
const MACRO = /%(?:\{([slodiphv])([1-9]\d{0,2})?(r?)([.+,/_=-]*)\}|([%_-]))/gi;
const LITERALS: Readonly<Record<string, string>> = { '%': '%', _: ' ', '-': '%20' };
/** Characters. A name has far fewer, even with macros. */
const SPEC_LENGTH_MAX = 500;
const MACRO_AT_END = /%(?:\{[^{}]*\}|[%_-])$/;
const TOP_LABEL = /\.([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)\.?$/i;

export function isMacroString(text: string): boolean {
  return /^[!-~]*$/.test(text) && !text.replace(MACRO, '').includes('%');
}

/** Returns (§7.1) whether the text is a domain name that ends in a macro or in a label that is not a number. */
export function isDomainSpec(text: string): boolean {
  if (text.length > SPEC_LENGTH_MAX || !isMacroString(text)) return false;
  const [, label = ''] = TOP_LABEL.exec(text) ?? [];
  return MACRO_AT_END.test(text) || /[a-z-]/i.test(label);
}

/**
 * Returns the domain name, which need not exist. A name that is too long loses labels on the left.
 * @param spec text that passed isDomainSpec
 */
export function expandMacros(spec: string, context: MacroContext): string {
  let name = '';
  let end = 0;
  for (const macro of spec.matchAll(MACRO)) {
    const [text, letter] = macro;
    name += spec.slice(end, macro.index);
    name +=
      letter === undefined ? (LITERALS[text[1] ?? ''] ?? '') : expandMacro(macro, letter, context);
    end = macro.index + text.length;
  }
  return cutToLength(name + spec.slice(end));
}

/** Splits, reverses and cuts the value as the macro says (§7.3). A capital letter escapes it for a URL. */
function expandMacro(
  [, , digits, reverse, delimiters]: RegExpExecArray,
  letter: string,
  context: MacroContext,
): string {
  const splitAt = escapeForRegExp(delimiters || '.');
  const parts = valueOf(letter.toLowerCase(), context).split(new RegExp(`[${splitAt}]`));
  if (reverse) parts.reverse();
  const kept = parts.slice(digits === undefined ? 0 : -Number(digits)).join('.');
  return letter === letter.toLowerCase() ? kept : encodeURIComponent(kept);
}

function valueOf(letter: string, { ip, helo, domain, sender }: MacroContext): string {
  switch (letter) {
    case 's':
      return `${LOCAL_PART}@${sender}`;
    case 'l':
      return LOCAL_PART;
    case 'o':
      return sender;
    case 'i':
      return isIPv6(ip) ? nibblesOf(ip) : ip;
    case 'v':
      return isIPv6(ip) ? 'ip6' : 'in-addr';
    case 'h':
      return helo;
    // §7.3: receivers that do not look up names use "unknown".
    case 'p':
      return 'unknown';
    default:
      return domain;
  }
}

function nibblesOf(ip: string): string {
  return reverseName(ip).replace('.ip6.arpa', '').split('.').toReversed().join('.');
}

function escapeForRegExp(delimiters: string): string {
  return delimiters.replaceAll(/[.+,/_=-]/g, '\\$&');
}

function cutToLength(name: string): string {
  let cut = name;
  while (cut.length > NAME_LENGTH_MAX) cut = cut.slice(cut.indexOf('.') + 1 || cut.length);
  return cut;
}
