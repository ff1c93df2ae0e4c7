/** Addresses in the midst of other text, as reports name them. Linear: each run is bounded. */

const LOCAL = String.raw`(?:[\w!#$%&'*+/=?^\x60{|}~.\u0080-\uffff-]{1,64}|"[^"\r\n]{1,62}")`;
const DOMAIN = String.raw`[a-zA-Z0-9\u0080-\uffff_](?:[a-zA-Z0-9\u0080-\uffff_.-]{0,253}[a-zA-Z0-9\u0080-\uffff])?`;

const ADDRESS = new RegExp(`${LOCAL}@${DOMAIN}`);
const ADDRESSES = new RegExp(ADDRESS, 'g');

export type Found = { address: string; start: number; end: number };

/** All addresses of a line. */
export function addressesIn(text: string): Found[] {
  if (!text.includes('@')) return [];
  return Array.from(text.matchAll(ADDRESSES), (match) => ({
    address: cleaned(match[0]),
    start: match.index,
    end: match.index + match[0].length,
  })).filter(({ address }) => address !== '');
}

/** The first address of a field: `rfc822; <jo@acme.test>`, `utf-8; ...` (RFC 6533 §3). */
export function addressIn(value: string): string | null {
  const text = value.replace(/\\x\{([0-9a-f]{1,6})\}/gi, (escaped, hex: string) => {
    const codePoint = Number.parseInt(hex, 16);
    return codePoint > 0x7f && codePoint <= 0x10ffff ? String.fromCodePoint(codePoint) : escaped;
  });
  const [first] = addressesIn(text);
  return first?.address ?? null;
}

/** Without a quote or the `=` of a field that ran into it. */
function cleaned(address: string): string {
  return address.replace(/^(?:mailto:|['`=]+)/i, '').replace(/^@.*/, '');
}
